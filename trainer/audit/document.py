"""The audit as one document: audit.json (docs/reference/schemas/audit.schema.json)."""

from __future__ import annotations

import json
import math
import os
import platform
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, cast

import numpy as np

from edgeveil.edge_runtime.errors import BadInput, reason
from edgeveil.edge_runtime.util.atomic import file_place, write_atomic
from edgeveil.edge_runtime.util.validate import counted
from edgeveil.trainer.attacks.findings import Findings, Journal, Scored
from edgeveil.trainer.attacks.parts import Part
from edgeveil.trainer.attacks.problem import BUDGETS
from edgeveil.trainer.audit import verdict
from edgeveil.trainer.audit.findings import FIXED, Finding
from edgeveil.trainer.audit.subject import KERAS
from edgeveil.trainer.measures.intervals import Interval
from edgeveil.trainer.progress import say
from edgeveil.trainer.results import locked, set_aside
from edgeveil.trainer.runs.run import package_versions

SCHEMA = 1
CHOSEN_ON = "validation rows that neither the classifiers nor the perturber saw; reported on test"
PACKAGES = ("edgeveil", "numpy", "scipy", "scikit-learn", "keras", "tensorflow-cpu", "tensorflow")
NOT_COVERED = (
    "Many samples of one person as they really follow each other, beyond what is listed.",
    "An adversary who knows anything about the sample beyond y and the perturber's outputs.",
    "Attacks stronger than those listed: every number is a lower bound on what leaks, not a guarantee.",
    "Attributes that are not in the data set; those in it were attacked by few families.",
    "People, rooms and sensors unlike those in the data.",
)


@dataclass(frozen=True)
class Audited:
    """One perturber under attack: how well it keeps y, and what was found about z.

    ``most_bits`` is the attack with most bits on validation, ``parts`` are the rows on which it was tested apart.
    ``readers`` are those of y, the best first, whose figure ``target`` is; none where y was not asked of them.
    """

    target: Interval
    findings: Findings
    most_bits: Scored | None = None
    parts: Sequence[Part] = ()
    readers: Sequence[Finding] = ()

    def as_dict(self) -> dict[str, Any]:
        """The part of the document that a perturber and label-only share."""
        found = {"target": interval(self.target), **attacked(self.findings, self.parts)}
        for one in self.readers[:1]:
            found["target"]["by"] = one.name
        for one in self.readers:
            if one.name == FIXED:
                found["fixed_reader"] = interval(measured(one))
        return found


def attacked(found: Findings, parts: Sequence[Part] = ()) -> dict[str, Any]:
    """What was found about z, as documents have it."""
    return {
        "chance": found.chance._asdict(),
        "adversaries": [shorts(asdict(row)) for row in found.rows],
        "not_run": [left_out._asdict() for left_out in found.not_run],
        "worst_adaptive": {**shorts(asdict(found.worst_adaptive)), "chosen_on": CHOSEN_ON},
        "most_bits": {**shorts(asdict(found.most_bits)), "chosen_on": CHOSEN_ON},
        "learning_curve": None
        if found.curve is None
        else {**shorts(found.curve._asdict()), "points": [shorts(point._asdict()) for point in found.curve.points]},
        "warnings": list(found.warnings),
        "permutation": None if found.permutation is None else shorts(found.permutation._asdict()),
        "counting": None if found.counting is None else shorts(found.counting._asdict()),
        "parts": [_part(one) for one in parts],
    }


def measured(one: Finding) -> Interval:
    """A finding that has a value and both ends, as an estimate with its interval."""
    return Interval(cast(float, one.value), *cast(tuple[float, float], one.interval))


def interval(value: Interval) -> dict[str, float]:
    """An accuracy with its interval, under the names the document uses."""
    return dict(zip(("accuracy", "low", "high"), map(short, value), strict=True))


def spread(value: Interval) -> dict[str, Any]:
    """A mean with its interval, under the names the document uses."""
    return dict(zip(("mean", "low", "high"), map(short, value), strict=True))


def short(value: Any) -> Any:
    """A float with 6 decimals, None where it is not finite; any other value unchanged."""
    if not isinstance(value, (float, np.floating)):
        return value
    return round(float(value), 6) if math.isfinite(value) else None


def shorts(record: Mapping[str, Any]) -> dict[str, Any]:
    """The record with its floats as ``short`` gives them."""
    return {name: short(value) for name, value in record.items()}


def _part(part: Part) -> dict[str, Any]:
    right = None if math.isnan(part.right.estimate) else interval(part.right)
    return {**shorts(part._asdict()), "right": right, "bits": spread(part.bits)}


def environment() -> tuple[dict[str, str], dict[str, Any]]:
    """Versions of what the numbers depend on, and the machine in general terms (never its name)."""
    versions = {"python": platform.python_version(), **package_versions(PACKAGES)}
    return versions, {"system": platform.system(), "architecture": platform.machine(), "cores": os.cpu_count() or 1}


class Making:
    """The fields that every document of an audit has, with the time that it took from here on."""

    def __init__(self, kind: str, budget: str, seed: int) -> None:
        """Raises ``BadInput`` for a ``budget`` that there is not."""
        if budget not in BUDGETS:
            raise BadInput(f"An audit budget is one of {', '.join(BUDGETS)}; got {budget!r}.")
        self._begun, created = time.monotonic(), datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
        self._fields = {"schema": SCHEMA, "kind": kind, "created": created, "budget": budget, "seed": seed}

    def fields(self) -> dict[str, Any]:
        """Called at the end of the audit."""
        versions, machine = environment()
        took = round(time.monotonic() - self._begun, 1)
        return {**self._fields, "versions": versions, "machine": machine, "wall_time_s": took}


def save(document: Mapping[str, Any], folder: Path, *, others: Sequence[Mapping[str, Any]] = ()) -> Path:
    """Write ``audit.json`` into an export folder, whole or not at all; an earlier one gets a dated name.

    ``document`` is of the artefact that ships. ``others``, audits of further artefacts of the same export, are kept
    with it, and so are the columns of boards that are in the file already. Raises ``BadInput`` for the Keras networks
    as the main document: they never ship.
    """
    require_ships(document["artefact"])
    path = Path(folder) / "audit.json"
    file_place(path)
    others = [*others, *columns(path)]
    whole = {**document, "others": others} if others else dict(document)
    with locked(path, "audit"):
        set_aside(path.with_name("countersignature.json"))  # it speaks of the old one
        write_atomic(path, _bytes(whole), keep_old=True)
    return path


def require_ships(artefact: str) -> None:
    """Raise ``BadInput`` for the Keras networks, whose audit is no part of an export folder."""
    if artefact == KERAS:
        raise BadInput(
            "The audit of an artefact that ships was expected; got one of the Keras networks. Audit tflite-int8, or "
            "the artefact that goes onto the board."
        )


def require_new(folder: Path, *, replace: bool) -> None:
    """Raise ``BadInput`` where an export folder was audited already, unless that audit may be replaced."""
    path = Path(folder) / "audit.json"
    if path.exists() and not replace:
        raise BadInput(
            f"{path} is an audit already: seal it, show it with --full, or add --replace, which keeps it under a dated "
            "name."
        )


def _bytes(document: Mapping[str, Any]) -> bytes:
    return (json.dumps(document, indent=1, sort_keys=True, allow_nan=False) + "\n").encode()


def columns(path: Path) -> list[dict[str, Any]]:
    """The boards' columns of an audit.json; none where there is no such file."""
    try:
        document = json.loads(path.read_bytes())
    except FileNotFoundError:
        return []
    except (OSError, ValueError) as error:
        raise BadInput(f"{path} cannot be read ({reason(error)}): remove it, then audit again.") from None
    return [other for other in document.get("others", []) if "on_board" in other]


def add_column(document: Mapping[str, Any], folder: Path) -> Path:
    """Put a board's column into the audit.json of an export folder; it replaces an older one of that board."""
    path = Path(folder) / "audit.json"
    main = json.loads(path.read_bytes())
    kept = [other for other in main.get("others", []) if "on_board" not in other]
    whole = {**main, "others": [*kept, *verdict.joined(document, columns(path))]}
    write_atomic(str(path), _bytes(whole))
    return path


def same(row: Mapping[str, Any], chosen: Mapping[str, Any]) -> bool:
    """Whether ``chosen`` (``worst_adaptive`` or ``most_bits``) is this row."""
    return identity(row) == identity(chosen)


def identity(row: Mapping[str, Any]) -> tuple[Any, ...]:
    """What tells an adversary's row from the others of one document: its name, its seed, what it learned on."""
    return row["name"], row["seed"], row.get("learned_on")


# An audit's journal: what its attacks answered is kept until the audit is done.


def versions() -> str:
    """What computes an answer, as text: with other versions it may be another."""
    return repr(sorted(package_versions(PACKAGES).items()))


@contextmanager
def kept_answers(folder: Path, *, resume: bool) -> Iterator[Journal]:
    """The journal in ``folder``, which goes when the block is done, and stays where it is broken off.

    Raises ``BadInput`` where an audit that was broken off left answers there, unless ``resume``.
    """
    with locked(folder, "audit"):
        journal = Journal(folder, made_by=versions())
        if len(journal) and not resume:
            raise BadInput(
                f"An audit of these rows with this budget and seed was broken off; answers of "
                f"{counted(len(journal), 'attack')} "
                f"are kept. Add --resume to continue it, or remove {folder} to begin anew."
            )
        try:
            yield journal
        except KeyboardInterrupt:
            say(
                f"Answers of {counted(len(journal), 'attack')} are kept in {folder}; the same command "
                f"with --resume continues."
            )
            raise
        shutil.rmtree(folder, ignore_errors=True)
