"""Read the paper's tables."""

import csv
from pathlib import Path

_FOLDER = Path(__file__).parent


def paper_rpsv() -> dict[str, float]:
    """RPSV of each dataset, by our names: ``hopper-expert-random-5``, ``ant-medium-replay``, ``antmaze-umaze``, ..."""
    return {_dataset_name(row): float(row["rpsv"]) for row in _rows("rpsv.csv")}


def paper_scores() -> dict[tuple[str, str], dict[str, float]]:
    """Mean normalised return by (algorithm, dataset), then by sampler: AW, RW, Top-10%, Uniform."""
    scores = {}
    for row in _rows("scores.csv"):
        samplers = {name: row[name] for name in ("AW", "RW", "Top-10%", "Uniform") if row[name]}
        scores[row["algorithm"], _dataset_name(row)] = {name: float(value) for name, value in samplers.items()}
    return scores


def _dataset_name(row: dict[str, str]) -> str:
    name = f"{row['env']}-{row['data']}"
    return f"{name}-random-{row['sigma']}" if row["sigma"] else name


def _rows(file: str) -> list[dict[str, str]]:
    with (_FOLDER / file).open(newline="") as lines:
        return list(csv.DictReader(lines))
