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
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import Any, cast

from edgeveil.edge_runtime.bundle.audit_schema_1 import as_schema_2
from edgeveil.edge_runtime.errors import BadInput, reason
from edgeveil.edge_runtime.util.atomic import file_place, write_atomic
from edgeveil.edge_runtime.util.validate import counted
from edgeveil.trainer.attacks.exposure import NOTHING, Rate
from edgeveil.trainer.attacks.families.code_counts import CodeCounts
from edgeveil.trainer.attacks.findings import Findings, Journal, Row, Scored
from edgeveil.trainer.attacks.parts import Part
from edgeveil.trainer.attacks.problem import BUDGETS
from edgeveil.trainer.audit import verdict
from edgeveil.trainer.audit.findings import FIXED, SENT, Finding, plain
from edgeveil.trainer.audit.subject import KERAS
from edgeveil.trainer.measures.intervals import Interval
from edgeveil.trainer.progress import say
from edgeveil.trainer.results import locked, set_aside
from edgeveil.trainer.runs.run import package_versions

SCHEMA = 2
PACKAGES = ("edgeveil", "numpy", "scipy", "scikit-learn", "keras", "tensorflow-cpu", "tensorflow")
NOT_COVERED = (
    "Many samples of one person as they really follow each other, beyond what is listed.",
    "An adversary who knows anything about the sample beyond y and the perturber's outputs.",
    "Attacks stronger than those listed: figures of attacks are lower bounds; only a bound is a guarantee.",
    "Attributes that are not in the data set; those in it were attacked by few families.",
    "People, rooms and sensors unlike those in the data.",
)


@dataclass(frozen=True)
class Audited:
    """One perturber under attack: how well it keeps y, and what was found about z.

    ``attacks`` are all on z, ``most_bits`` is that with most bits on validation, and ``parts`` are the rows on which it
    was tested apart. ``readers`` are those of y, the best first, then those of each attribute of a joint y; ``target``
    is the best one's figure.
    """

    target: Interval
    found: Findings
    most_bits: Scored | None = None
    parts: Sequence[Part] = ()
    readers: Sequence[Finding] = ()
    attacks: Sequence[Scored] = ()

    def findings(self, y: str, z: str, *, of: str = SENT) -> list[Finding]:
        """As findings about ``of``; ``y`` and ``z`` are names."""
        of_readers = [replace(one, question=y if one.kind == "reader" else one.question, of=of) for one in self.readers]
        of_readers = of_readers or [Finding.measured(y, FIXED, "right", self.target, of=of, more={"kind": "reader"})]
        return [*of_readers, *attacked(self.found, z, self.parts, of=of)]


def attacked(found: Findings, z: str, parts: Sequence[Part] = (), *, of: str = SENT) -> list[Finding]:
    """What was found about ``z``: chance, attacks, what did not run, tests, parts of the rows and the curve."""
    new, measured = partial(Finding, z, of=of), partial(Finding.measured, z, of=of)
    adaptive = any(row.kind == "adaptive" for row in found.rows)
    best, most = (found.worst_adaptive, found.most_bits) if adaptive else (None, None)
    rows = [new(name, "right", value, more={"kind": "guess"}) for name, value in found.chance._asdict().items()]
    for row in found.rows:
        rows += _attack(row, z, max(found.chance), {"right": row is best, "bits-counted": row is most}, of)
    rows += [new(left.name, not_run=left.reason, more={"kind": left.kind}) for left in found.not_run]
    about: dict[str, Any] = {} if most is None else {"learned_on": most.learned_on, "seed": most.seed}
    name = "" if most is None else most.name
    for kind, test in (("test", found.permutation), ("counting", found.counting)):
        if test is not None:
            who, how = (name, about) if kind == "test" else (CodeCounts.name, {"learned_on": "crossed"})
            more = {"kind": kind, "null_high": test.null_high, "shuffles": test.shuffles, "swapped": test.swapped}
            rows.append(new(who, "gain", test.gain, p=test.p, more=more, **how))
    for part in parts:
        facts: dict[str, Any] = {"rows": part.rows, **about}
        facts["more"] = {"kind": "part", "about": part.name, "cut": part.kind, "units": part.units}
        if not math.isnan(part.right.estimate):
            rows.append(measured(name, "right", part.right, null=part.chance, **facts))
        if math.isnan(part.bits.estimate):
            rows.append(new(name, not_run=f"{part.rows} rows are too few for a figure", **facts))
        else:
            rows.append(measured(name, "bits-counted", part.bits, null=0.0, p=part.p, **facts))
    if (curve := found.curve) is not None:
        for samples, right in curve.points:
            more = {"kind": "curve", "about": f"{samples} rows", "train_samples": samples}
            rows.append(measured(curve.name, "right", right, seed=curve.seed, more=more))
        more = {"kind": "curve", "rising": curve.rising}
        rows.append(measured(curve.name, "difference", curve.gain, seed=curve.seed, more=more))
    return rows


def _attack(row: Row, z: str, guess: float, chosen: Mapping[str, bool], of: str) -> Iterator[Finding]:
    """A row of the attacks, one finding for each of its figures, next to what y alone reaches."""
    measured = partial(Finding.measured, z, row.name, learned_on=row.learned_on, seed=row.seed, of=of)
    about: dict[str, Any] = {"kind": row.kind, "train_samples": row.train_samples, "seconds": row.seconds}
    about |= {"members": row.members} if row.members else {}
    about |= {"chosen": True} if chosen["right"] else {}
    yield measured("right", row.right, null=guess, chosen_by=row.validation_accuracy, more=about)
    for figure, rate in (
        ("auc", Rate(NOTHING._replace(estimate=row.auc), 0, 0.5)),
        ("bits", Rate(row.bits, 0, 0.0)),
        ("bits-counted", Rate(row.bits_counted, 0, 0.0)),
        ("balanced", row.balanced),
        ("recognised", row.recognised),
        ("worst-class", row.worst_class),
    ):
        if not (math.isnan(rate.rate.estimate) and not rate.rows):
            null, p = (None if math.isnan(one) else one for one in (rate.chance, rate.p))
            more = {"kind": row.kind, **({"chosen": True} if chosen.get(figure) else {})}
            by = row.validation_bits if figure == "bits-counted" else None
            yield measured(figure, rate.rate, null=null, rows=rate.rows, p=p, chosen_by=by, more=more)


def measured(one: Finding) -> Interval:
    """A finding that has a value and both ends, as an estimate with its interval."""
    return Interval(cast(float, one.value), *cast(tuple[float, float], one.interval))


def interval(value: Interval) -> dict[str, float]:
    """An accuracy with its interval, under the names the document uses."""
    return dict(zip(("accuracy", "low", "high"), map(plain, value), strict=True))


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
        document = read(path)
    except FileNotFoundError:
        return []
    return [other for other in document.get("others", []) if "on_board" in other]


def read(path: Path) -> dict[str, Any]:
    """An audit.json as schema 2. Raises ``FileNotFoundError``, and ``BadInput`` for what is no audit."""
    try:
        return as_schema_2(json.loads(path.read_bytes()))
    except FileNotFoundError:
        raise
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise BadInput(f"{path} cannot be read ({reason(error)}): remove it, then audit again.") from None


def add_column(document: Mapping[str, Any], folder: Path) -> Path:
    """Put a board's column into the audit.json of an export folder; it replaces an older one of that board."""
    path = Path(folder) / "audit.json"
    main = read(path)
    other_columns = [other for other in main.get("others", []) if "on_board" not in other]
    whole = {**main, "others": [*other_columns, *verdict.joined(document, columns(path))]}
    write_atomic(str(path), _bytes(whole))
    return path


# An audit's journal: what its attacks answered is kept until the audit is done.


def versions() -> str:
    """What computes an answer, as text: with other versions it may be another."""
    return repr(sorted(package_versions(PACKAGES).items()))


@contextmanager
def kept_answers(folder: Path) -> Iterator[Journal]:
    """The journal in ``folder``: removed when the block is done, kept where it is interrupted.

    Answers that an interrupted audit left there are taken: their names are hashes of all that they depend on.
    """
    with locked(folder, "audit"):
        journal = Journal(folder, made_by=versions())
        if len(journal):
            say(f"Continuing an audit that was interrupted: {folder} has answers of {counted(len(journal), 'attack')}.")
        try:
            yield journal
        except KeyboardInterrupt:
            say(f"Answers of {counted(len(journal), 'attack')} are kept in {folder}; the same command continues.")
            raise
        shutil.rmtree(folder, ignore_errors=True)
