"""Damaged files in great numbers: what do the readers make of them?

    python -m reproduction.fuzz --tries 100000 --minutes 4 [--format d4rl]

Small valid files of every format are mutated (bytes changed, cut, zeroed, moved, inserted, length fields replaced) and read in
a process that is watched: it may accept a file or refuse it with a DatasetError. Anything else is a defect of ours (another
exception) or of a library (a crash, or a hang: no answer within HANG_SECONDS).
For HDF5 and Minari the watched process is what ``guard`` starts: it looks first (``io.guard.look``) and reads everything then;
``past_guard`` counts crashes and hangs of the second step, which the guard would not have prevented.
Try k of a format is the same on every machine (``--seed``), so ``--first`` k ``--tries`` 1 repeats it.
"""

import argparse
import io
import json
import multiprocessing
import shutil
import sys
import tempfile
import time
import warnings
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import feather

import upweight as uw
from benchmarks.measure import record
from upweight.io.guard import is_delicate, limit_memory, look
from upweight.io.registry import formats

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from support.files import save_quietly

HANG_SECONDS = 2.0  # the files are tiny: the slowest answer takes a fraction of a second
# What worker and watchdog share, in this order.
TRY, STAGE, ACCEPTED, REFUSED, OTHER, SLOWEST_US = range(6)
IDLE, LOOKING, READING = range(3)
NUMBERS = [0, 1, 2, 7, 127, 128, 255, 2**15, 2**16 - 1, 2**31 - 1, 2**31, 2**32 - 1, 2**40, 2**63 - 1, 2**64 - 1]


def write_originals(folder: Path) -> dict[str, Path]:
    """A small valid dataset in every format, and in other shapes of some."""
    rng = np.random.default_rng(0)
    dataset = uw.Dataset.from_arrays(
        observations=rng.normal(size=(5, 3)).astype(np.float32),
        actions=rng.normal(size=(5, 2)).astype(np.float32),
        rewards=rng.normal(size=5),
        terminated=np.array([0, 0, 1, 0, 0], bool),
        truncated=np.array([0, 0, 0, 0, 1], bool),
        next_observations=rng.normal(size=(5, 3)).astype(np.float32),
        labels=["good", "poor"],
        metadata={"note": "fuzz"},
    )
    for name in formats():
        save_quietly(dataset, folder / name, name)
    write_minari_arrow(dataset, folder / "minari-arrow")
    rows = zip([0, 0, 0, 1, 1], *dataset.observations.T, *dataset.actions.T, dataset.rewards, strict=True)
    lines = ["episode,observation_a,observation_b,observation_c,action_a,action_b,reward"]
    (folder / "table.csv").write_text("\n".join(lines + [",".join(map(str, row)) for row in rows]))
    return {path.name: path for path in sorted(folder.iterdir())}


def write_minari_arrow(dataset: uw.Dataset, folder: Path) -> None:
    """As Minari does it: a folder per episode, with one row more than it has steps."""
    box = {"type": "Box", "dtype": "float32", "shape": [3], "low": [-9.0] * 3, "high": [9.0] * 3}
    folder.mkdir()
    about = {"data_format": "arrow", "observation_space": json.dumps(box), "dataset_id": "fuzz/arrow-v0"}
    (folder / "metadata.json").write_text(json.dumps(about))
    for number, (start, length) in enumerate(zip(dataset.starts, dataset.lengths, strict=True)):
        rows = np.minimum(np.arange(start, start + length + 1), start + length - 1)
        fields = {"rewards": dataset.rewards, "terminations": dataset.terminated, "truncations": dataset.truncated}
        columns = {name: pa.array(values[rows]) for name, values in fields.items()}
        for name, values in (("observations", dataset.observations), ("actions", dataset.actions)):
            columns[name] = pa.array(values[rows].tolist(), pa.list_(pa.float32()))
        (folder / str(number)).mkdir()
        feather.write_feather(pa.table(columns), folder / str(number) / "0-0.arrow", compression="uncompressed")
        (folder / str(number) / "metadata.json").write_text(json.dumps({"rewards_sum": 1.0}))


def damage(data: bytes, rng: np.random.Generator) -> bytes:
    """A file changed at random; half of the zip archives get a changed member with the right check sum instead."""
    if not data.startswith(b"PK") or rng.random() < 0.5:
        return mutate(data, rng)
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as archive, zipfile.ZipFile(out, "w") as changed:
        victim = rng.choice(archive.namelist())
        for name in archive.namelist():
            changed.writestr(name, mutate(archive.read(name), rng) if name == victim else archive.read(name))
    return out.getvalue()


def mutate(data: bytes, rng: np.random.Generator) -> bytes:
    """One to four random changes, most often one; nine of ten at a byte that is not zero (HDF5 has much empty space)."""
    out = bytearray(data)
    filled = np.flatnonzero(np.frombuffer(data, np.uint8))
    for _ in range(min(4, int(rng.geometric(0.6)))):
        here = int(rng.choice(filled)) if rng.random() < 0.9 else int(rng.integers(len(data)))
        if here >= len(out):
            break
        size = int(min(rng.geometric(0.05), len(out) - here))
        kind = rng.integers(7)
        if kind == 0:  # flip bits of some bytes
            for place in rng.integers(len(out), size=int(rng.integers(1, 9))).tolist():
                out[place] ^= 1 << int(rng.integers(8))
        elif kind == 1:  # another value
            out[here] = int(rng.integers(256))
        elif kind == 2:  # a length, count or offset
            width = int(rng.choice([1, 2, 4, 8]))
            number = int(rng.choice(np.array([*NUMBERS, len(out), len(out) - here], object)))
            out[here : here + width] = (number % 256**width).to_bytes(width, "little" if rng.random() < 0.8 else "big")
        elif kind == 3:  # zeros
            out[here : here + size] = bytes(size)
        elif kind == 4:  # a piece from elsewhere
            there = int(rng.integers(len(out)))
            out[here : here + size] = out[there : there + size]
        elif kind == 5:  # bytes gone or too many
            out[here : here + (size if rng.random() < 0.5 else 0)] = rng.bytes(int(rng.integers(0, 9)))
        else:  # the end is missing
            del out[here:]
    return bytes(out)


def attempt(path: Path, shared: Any, guarded: bool) -> None:
    """What a user does with a file: all of it is read, described and drawn from."""
    if guarded:
        shared[STAGE] = LOOKING
        look(path)
    shared[STAGE] = READING
    dataset = uw.load(path)
    dataset.check()
    rng = np.random.default_rng(0)
    dataset.transitions(uw.EpisodeSampler(dataset, uw.Uniform()).sample(rng, 4))
    uw.inspect(dataset)


def work(original: Path, folder: Path, seed: int, last: int, shared: Any) -> None:
    """Tries from ``shared[TRY]`` on; each is announced before it begins."""
    warnings.simplefilter("ignore")
    limit_memory(original)
    guarded = is_delicate(original)
    target = folder / original.name
    sources = sorted(file for file in [original, *original.rglob("*")] if file.is_file())
    files = [target / source.relative_to(original) for source in sources]
    contents = [source.read_bytes() for source in sources]
    share = np.sqrt([len(content) for content in contents])  # of the tries that a file gets
    for file, content in zip(files, contents, strict=True):
        file.write_bytes(content)
    attempt(target, [0] * 6, guarded)  # that it is read while whole; and what is imported late is there from now on
    for number in range(shared[TRY], last):
        shared[STAGE] = IDLE
        shared[TRY] = number
        rng = np.random.default_rng([seed, number])
        which = int(rng.choice(len(files), p=share / share.sum()))
        files[which].write_bytes(damage(contents[which], rng))
        began = time.perf_counter()
        try:
            attempt(target, shared, guarded)
            shared[ACCEPTED] += 1
        except (uw.DatasetError, uw.WeightingError):
            shared[REFUSED] += 1
        except Exception as error:
            shared[OTHER] += 1
            text = f"{type(error).__name__}: {str(error)[:200]}"
            with (folder / "findings.jsonl").open("a") as out:
                out.write(json.dumps({"try": number, "found": text}) + "\n")
        shared[SLOWEST_US] = max(shared[SLOWEST_US], int(1e6 * (time.perf_counter() - began)))
        files[which].write_bytes(contents[which])
    shared[TRY] = last


def fuzz(original: Path, options: argparse.Namespace) -> dict[str, Any]:
    """All tries of one format, or as many as the time allows."""
    context = multiprocessing.get_context("spawn")
    shared: Any = context.RawArray("q", 6)
    shared[TRY] = options.first
    last = options.first + options.tries
    counts = {"hangs": 0, "crashes": 0, "past_guard": 0}
    began = time.monotonic()
    with tempfile.TemporaryDirectory(dir=options.scratch) as name:
        folder = Path(name)
        findings = folder / "findings.jsonl"
        while shared[TRY] < last and time.monotonic() - began < 60 * options.minutes:
            shutil.rmtree(folder / original.name, ignore_errors=True)
            if original.is_dir():
                shutil.copytree(original, folder / original.name)
            worker = context.Process(target=work, args=(original, folder, options.seed, last, shared), daemon=True)
            shared[STAGE] = IDLE
            worker.start()
            end = watch(worker, shared, began + 60 * options.minutes)
            if end in ("hangs", "crashes"):
                counts[end] += 1
                counts["past_guard"] += int(shared[STAGE] == READING and is_delicate(original))
                with findings.open("a") as out:
                    out.write(json.dumps({"try": shared[TRY], "found": end, "stage": shared[STAGE]}) + "\n")
                shared[TRY] += 1
        found = [json.loads(line) for line in findings.read_text().splitlines()] if findings.exists() else []
    return {
        "format": original.name,
        "tries": shared[TRY] - options.first,
        "accepted": shared[ACCEPTED],
        "refused": shared[REFUSED],
        "other_exceptions": shared[OTHER],
        **counts,
        "slowest_seconds": round(shared[SLOWEST_US] / 1e6, 3),
        "minutes": round((time.monotonic() - began) / 60, 2),
        "findings": found[:50],
    }


def watch(worker: Any, shared: Any, deadline: float) -> str:
    """Wait for the worker: ``done``, ``crashes`` or, if it is stopped for one try without an end, ``hangs``."""
    seen, since = -1, time.monotonic()
    while worker.is_alive():
        worker.join(0.2)
        now = time.monotonic()
        if shared[TRY] != seen or shared[STAGE] == IDLE:
            seen, since = shared[TRY], now
        if now > deadline or now - since > HANG_SECONDS:
            worker.kill()
            worker.join()
            return "hangs" if now - since > HANG_SECONDS else "done"
    return "done" if worker.exitcode == 0 else "crashes"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tries", type=int, default=100_000, help="per format (default: 100,000)")
    parser.add_argument("--minutes", type=float, default=5.0, help="at most, per format (default: 5)")
    parser.add_argument("--format", action="append", help="may be given several times (default: all)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="number of the first try")
    parser.add_argument("--scratch", type=Path, help="folder for the files, best in memory (/dev/shm)")
    parser.add_argument("--name", default="fuzz", help="of the results file (default: fuzz)")
    options = parser.parse_args()
    results = []
    with tempfile.TemporaryDirectory() as name, warnings.catch_warnings():
        warnings.simplefilter("ignore", uw.DataLossWarning)
        originals = write_originals(Path(name))
        for kind in options.format or originals:
            results.append(fuzz(originals[kind], options))
            print(json.dumps(results[-1]), flush=True)
            record(options.name, ["upweight", "numpy", "h5py", "pyarrow", "minari"], results)


if __name__ == "__main__":
    main()
