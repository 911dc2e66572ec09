r"""How often a policy that copies actions may see the same few steps, before it memorises them.

Weights leave few steps to draw from, in effect :math:`n = (\sum_i T_i w_i)^2 / \sum_i T_i w_i^2`; after t updates with batches
of B steps they were seen :math:`tB/n` times. Measured with BC, RW and AW on the paper's mixes (docs/results.md, "How many
updates?"), for n from 2,000 to 500,000, and networks with two hidden layers of 256; smaller ones memorise less.
"""

KEPT = 1000  # times, up to which the gain over uniform sampling was kept
LOST = 8000  # times, after which most of it was lost
FEWEST_STEPS = 1000  # about as few as that was seen with
USUAL_BATCH = 256
WEIGHTS = 256 * 256  # between hidden layers


def updates_until(times: float, steps: float, batch_size: int = USUAL_BATCH) -> float:
    """After how many updates ``steps`` were seen so often."""
    return times * steps / batch_size


def updates_text(updates: float) -> str:
    """Two digits are more than is known."""
    return f"{float(f'{updates:.2g}'):,.0f}"
