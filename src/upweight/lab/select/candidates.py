"""What there is to choose from: trained policies, in groups that differ in their training seed only."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from upweight.base.errors import DatasetError
from upweight.base.text import settings_text
from upweight.data.dataset import Dataset
from upweight.data.fingerprint import content_hash, fingerprint
from upweight.inspection.effect import describe_weighting
from upweight.lab.study.readers import open_store
from upweight.lab.study.store import Record
from upweight.lab.train.result import RunResult
from upweight.policies.policy import Policy, find_policies, load_policy

Given = str | Path | Policy | RunResult
_CLONES = {"bc", "discrete_bc"}
_ALIKE = "seed"  # the one setting in which policies of a candidate differ


class Member(NamedTuple):
    """One policy of a candidate."""

    policy: Policy
    path: Path | None  # its file, if it has one
    seed: int | None
    holdout: NDArray[np.int64] | None  # episodes of the data that its training kept back, if it did


@dataclass(frozen=True, eq=False)
class Candidate:
    """Policies of the same algorithm, weighting and settings."""

    name: str
    about: Mapping[str, Any]  # what its policies have in common; empty if their files do not say
    members: tuple[Member, ...]

    @property
    def clones_all(self) -> bool:
        """Whether it is behaviour cloning on all data: what a choice has to beat."""
        weighting = self.about.get("weighting")
        plain = isinstance(weighting, dict) and weighting.get("name") == "uniform"
        plain = plain and self.about.get("actor_weighting") is None
        return plain and self.about.get("algorithm") in _CLONES


def find_candidates(runs: Given | Sequence[Given], dataset: Dataset) -> tuple[list[Candidate], list[str]]:
    """Groups of policies in the order given, and what was left out."""
    given: Sequence[Any] = [runs] if isinstance(runs, str | Path | Policy | RunResult) else list(runs)
    notes: list[str] = []
    seen: set[Path] = set()
    groups: dict[str, list[Member]] = {}
    for each in given:
        for member in _members(each, dataset, notes):
            if member.path is not None:
                if member.path.resolve() in seen:
                    continue
                seen.add(member.path.resolve())
            about = _about(member.policy)
            key = json.dumps(about, sort_keys=True) if about else str(member.path or id(member.policy))
            groups.setdefault(key, []).append(member)
    if not groups:
        raise DatasetError(
            f"expected trained policies to choose from, found none{''.join(f'; {note}' for note in notes)}"
        )
    found = [Candidate("", _about(members[0].policy), tuple(members)) for members in groups.values()]
    return [replace(each, name=name) for each, name in zip(found, _names(found), strict=True)], notes


def _members(given: Any, dataset: Dataset, notes: list[str]) -> Iterator[Member]:
    if isinstance(given, RunResult):
        yield Member(given.policy, None, _seed(given.policy), given.holdout)
    elif isinstance(given, Policy):
        yield Member(given, None, _seed(given), None)
    else:
        path, records = Path(given), {}
        if any((path / name).exists() for name in ("plan.json", "store.json")):
            records = {Path(record["run_id"]).name: record for record in open_store(path).runs()}
        wanted = _of_these_data(path, list(records.values()), dataset, notes)
        for file in find_policies(path):
            if file.stem in wanted or not records:
                policy, kept_back = load_policy(file), records.get(file.stem, {}).get("holdout")
                holdout = _holdout(kept_back, dataset)
                if kept_back is not None and holdout is None and (note := _other_data(path, dataset)) not in notes:
                    notes.append(note)
                yield Member(policy, file, _seed(policy), holdout)


def _holdout(kept_back: Mapping[str, Any] | None, dataset: Dataset) -> NDArray[np.int64] | None:
    """The episodes that a record says were kept back, if they are episodes of these data."""
    if kept_back is None or kept_back["fingerprint"] != fingerprint(dataset):
        return None
    return np.asarray(kept_back["episodes"], np.int64)


def _other_data(path: Path, dataset: Dataset) -> str:
    return (
        f"{path}: trained on other data than {dataset.source}, or on its columns in another order, so what was kept back is not "
        "known: make sure that observations and actions mean the same"
    )


def _of_these_data(path: Path, records: Sequence[Record], dataset: Dataset, notes: list[str]) -> set[str]:
    """Names of finished runs: in a store of several datasets, of those on ``dataset``."""
    kept = [record for record in records if record["status"] == "finished"]
    if len(kept) < len(records):
        notes.append(
            f"{path}: {len(records) - len(kept)} of {len(records)} trainings diverged; their policies are left out"
        )
    names = {str(record["spec"]["data"]["name"]) for record in kept}
    if len(names) > 1:
        same = {content_hash(dataset), fingerprint(dataset)}
        kept = [
            record
            for record in kept
            if {record.get("data_sha256"), (record.get("holdout") or {}).get("fingerprint")} & same
        ]
        if not kept:
            raise DatasetError(
                f"{path}: holds policies of {len(names)} datasets ({', '.join(sorted(names))}), none of which is "
                f"{dataset.source}; give one of them as the data"
            )
    return {Path(record["run_id"]).name for record in kept}


def _about(policy: Policy) -> dict[str, Any]:
    """What a policy's file says of its training, but for the seed; anything odd counts as unsaid."""
    run = policy.metadata.get("run")
    if not isinstance(run, dict) or not isinstance(run.get("algorithm"), str):
        return {}
    rest = {key: policy.metadata.get(key) for key in ("num_updates", "dataset")}
    return {**{key: value for key, value in run.items() if key != _ALIKE}, **rest}


def _seed(policy: Policy) -> int | None:
    run = policy.metadata.get("run")
    seed = run.get(_ALIKE) if isinstance(run, dict) else None
    return seed if isinstance(seed, int) else None


def _names(candidates: Sequence[Candidate]) -> list[str]:
    """Algorithm and weighting; and, of those with equal ones, the settings in which they differ, or where they are from."""
    plain = [_plain_name(candidate) for candidate in candidates]
    flat = [_flat(candidate.about) for candidate in candidates]
    names = []
    for place, name in enumerate(plain):
        twins = [flat[other] for other, its in enumerate(plain) if its == name]
        differing = [key for key in flat[place] if len({repr(twin.get(key)) for twin in twins}) > 1]
        settings = settings_text({key: flat[place][key] for key in differing})
        path = candidates[place].members[0].path
        own = f"{name} ({settings})" if settings else str(path) if path else f"{name} ({place})"
        names.append(own if len(twins) > 1 else name)
    return names


def _plain_name(candidate: Candidate) -> str:
    about = candidate.about
    if not about:
        path = candidate.members[0].path
        return path.stem if path is not None else "a policy"
    weighting = about.get("weighting")
    return (
        f"{about['algorithm']} {describe_weighting({'name': '?', **weighting}) if isinstance(weighting, dict) else '?'}"
    )


def _flat(about: Mapping[str, Any]) -> dict[str, Any]:
    """Settings by name: the algorithm's own and the others."""
    rest = {key: value for key, value in about.items() if key not in {"algorithm", "weighting", "config"}}
    config = about.get("config")
    return {**(config if isinstance(config, dict) else {}), **rest}
