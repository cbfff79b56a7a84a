"""What a bundle promises the people behind its training data, and whether all that is in it is paid for.

A mark says how a network, a table, the range or the calibration depends on training data: ``PUBLIC``, by a private
mechanism and its share of the budget, or ``DATA``. What nothing says of is ``DATA``, and one such part takes the
promise away.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from edgeveil.trainer.recipe.private import Private

# What a differentially private result promises: one sentence, with what it rests on and what it leaves out.


Neighbours = Literal["add or remove", "replace"]
AROUND = {"add or remove": "adding or removing one {unit}", "replace": "replacing one {unit} by any other"}
ALWAYS_OUTSIDE = "what floating-point rounding of the noise may tell"


@dataclass(frozen=True)
class Guarantee:
    """``epsilon`` and ``delta`` of ``covers``, between data sets that differ in one ``unit``.

    ``given`` is what it rests on, ``outside`` what it leaves out: both stand in the sentence.
    """

    epsilon: float
    delta: float
    unit: str
    neighbours: Neighbours
    covers: str
    given: Sequence[str] = ()
    outside: Sequence[str] = ()

    def sentence(self) -> str:
        """All of it."""
        around = AROUND[self.neighbours].format(unit=self.unit)
        size = f"epsilon {self.epsilon:.4g}" + (f", delta {self.delta:.3g}" if self.delta else "")
        but = f", but for a chance of {self.delta:.3g}" if self.delta else ""
        given = f", given {_listed(self.given)}" if self.given else ""
        outside = _listed([*self.outside, ALWAYS_OUTSIDE])
        return (
            f"{around.capitalize()} of the training data changes the odds of {self.covers} by a factor of at most "
            f"e^{self.epsilon:.4g}{but} ({size}){given}; this leaves out {outside}."
        )

    def __str__(self) -> str:
        return self.sentence()


def _listed(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


PUBLIC, DATA = "public", "data"
HEAD = "head"  # the model that has a guarantee of its own, from a slice of its own
COVERS = "all networks, tables, ranges and calibration of this bundle"
BUT_HEAD = f"{COVERS} but for its head, whose guarantee stands apart"
HEAD_COVERS = "the head of this bundle"
GIVEN = (
    "public classes, bounds and number of units",
    "slices by a keyed hash of each unit's number",
    "a generator of the operating system that is sound",
)
OUTSIDE = (
    "the figures of this card, which are counted on the test slice (golden vectors are synthetic)",
    "settings that somebody chose on these data",
    "other bundles and runs that were trained on them",
)


def mark(mechanism: str, share: float) -> str:
    """The mark of what a mechanism made, for a share of the budget."""
    return f"private: {mechanism}, {share:.4g} of the budget"


def head_mark(mechanism: str, promise: Mapping[str, Any]) -> str:
    """The mark of a head, whose slice is its own."""
    delta = f" and delta {promise['delta']:.3g}" if promise["delta"] else ""
    return f"private: {mechanism}, epsilon {promise['epsilon']:.4g}{delta} on a slice of its own"


def promise(asked: Private, unit: str, marks: Mapping[str, Any]) -> dict[str, Any]:
    """The manifest's ``training``: what was ``asked`` for each ``unit``, and the marks so far."""
    return {
        "epsilon": float(asked.epsilon),
        "delta": asked.delta,
        "unit": unit,
        "neighbours": "add or remove",
        "marks": dict(marks),
    }


def unpaid(manifest: Mapping[str, Any]) -> list[str]:
    """The parts of a bundle that depend on training data by no private mechanism, or of which nothing is said."""
    marks = manifest["training"]["marks"]
    return [name for name, mark in _parts(manifest, marks) if mark != PUBLIC and not mark.startswith("private: ")]


def section(manifest: Mapping[str, Any]) -> dict[str, Any] | None:
    """The ``training`` section of an audit: the promise, its sentence where it is ``given``; None without [private]."""
    claim = manifest.get("training")
    if claim is None:
        return None
    without = unpaid(manifest)
    if without:
        text = f"There is no guarantee for the people behind the training data: {_cover_listed(without)} without noise."
    else:
        covers = BUT_HEAD if HEAD in manifest["models"] else COVERS
        given = Guarantee(claim["epsilon"], claim["delta"], claim["unit"], claim["neighbours"], covers, GIVEN, OUTSIDE)
        text = given.sentence()
    return {**claim, "given": not without, "unpaid": without, "sentence": text}


def head_section(manifest: Mapping[str, Any], mechanism: str, promised: Mapping[str, Any]) -> dict[str, Any]:
    """The ``head`` section of an audit: what ``promised`` (a ``Guarantee``'s fields) its fit, and the sentence.

    It is ``given`` only where all of the bundle is private: else other parts tell of the same people.
    """
    training = section(manifest)
    if training is None:
        why = "without [private] nothing guards what else ships"
    elif not training["given"]:
        why = f"{_cover_listed(training['unpaid'])} without noise"
    elif training["marks"]["models"].get(HEAD) != head_mark(mechanism, promised):
        why = "the run has another head than the bundle"
    else:
        why = ""
    sentence = Guarantee(**promised).sentence()
    if why:
        sentence = f"The head was fitted by {mechanism}, and there is no guarantee for the people behind it: {why}."
    size = {key: promised[key] for key in ("epsilon", "delta", "unit", "neighbours")}
    return {"mechanism": mechanism, **size, "given": not why, "sentence": sentence}


def _parts(manifest: Mapping[str, Any], marks: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name in manifest["models"]:
        yield f"the network {name}", marks.get("models", {}).get(name, DATA)
    for name in manifest["tables"]:
        yield f"the table {name}", marks.get("tables", {}).get(name, DATA)
    for name in ("range", "calibration"):
        yield f"the {name}", marks.get(name, DATA)


def _cover_listed(parts: list[str]) -> str:
    """Parts as the subject of a sentence."""
    if len(parts) == 1:
        return f"{parts[0]} depends on them"
    return f"{', '.join(parts[:-1])} and {parts[-1]} depend on them"
