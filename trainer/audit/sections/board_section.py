"""The section of an audit that ran on a board: its outputs compared with the workstation's, sample by sample."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from edgeveil.devices.remote import RemoteRows
from edgeveil.edge_runtime.device import CPU
from edgeveil.edge_runtime.manifest.manifest import parse
from edgeveil.edge_runtime.pipeline.pipeline import load_pipeline
from edgeveil.edge_runtime.stages import kind_of
from edgeveil.trainer.attacks.families.networks import logits
from edgeveil.trainer.audit.findings import plain
from edgeveil.trainer.audit.sections import About, Section
from edgeveil.trainer.audit.subject import ROWS_AT_ONCE, SENT, Perturbed, Subject, as_received, further_outputs
from edgeveil.trainer.datasets.base import Dataset
from edgeveil.trainer.measures import intervals

MEANING = (
    "The test slice went through the installed runtime on this board, one reading at a time. Attackers learned on what "
    "the workstation lets out of the other slices. Readings are compared with the workstation's under the noise "
    "that the board drew."
)

NOT_THERE = (
    "An adversary who retrains on what this very board lets out: those here learned on the workstation's.",
    "Many releases of one track, on the board itself.",
)

_DRAWN = "draw "  # before the names of draws that a board hands out


@dataclass(frozen=True)
class OnBoard:
    """What came back from a board, the bundle's manifest hash, and what was done, for people."""

    rows: RemoteRows
    bundle: str
    meaning: str = MEANING


def draws(manifest: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Entries of outputs that hand out what each draw stage drew."""
    entries = []
    for stage in manifest["stages"]:
        if stage["stage"] == "draw":
            shape, dtype = list(stage.get("shape", [])), kind_of(stage).dtype
            entry = {"kind": "code", "tensor": stage["output"], "shape": shape, "dtype": dtype}
            entries.append({"name": _DRAWN + stage["output"], **entry})
    return entries


def section(there: OnBoard, subject: Subject, dataset: Dataset, perturbed: Perturbed, target: Any) -> dict[str, Any]:
    """The document's ``on_board``. ``target`` is D_y, which reads y from frames on both sides."""
    outputs = there.rows.outputs
    test = dataset.part("test")
    drawn = {name[len(_DRAWN) :]: value for name, value in outputs.items() if name.startswith(_DRAWN)}
    declared, here = as_received(subject, _replayed(subject, test.x, drawn))
    board_outputs = as_received(subject, outputs)[1]
    comparisons = []
    for output in _kept(declared, perturbed):
        name, kind = output["name"], output["kind"]
        comparisons.append(_compared(name, kind, here[name], board_outputs[name], test.cluster))
        if kind == "frame":
            y, y_there = (logits(target, dataset.unit(frames[name])).argmax(axis=1) for frames in (here, board_outputs))
            comparisons.append(_compared("y read from it", "label", y, y_there, test.cluster))
    if perturbed.table is not None:
        comparisons.append(_compared("code before the channel", "code", here[SENT], outputs[SENT], test.cluster))
    ran = there.rows.ran
    versions = {"device": ran.get("device", CPU), "edge_runtime": ran["edge_runtime"], "numpy": ran["numpy"]}
    about = {"bundle": there.bundle, "rows": len(test), "compared": comparisons, "meaning": there.meaning}
    return {**there.rows.board, **versions, **about}


def _kept(declared: Sequence[Mapping[str, Any]], perturbed: Perturbed) -> Sequence[Mapping[str, Any]]:
    """Behind a channel both sides have what the board drew, so only outputs before it are compared."""
    if perturbed.table is None:
        return declared
    hidden = isinstance(perturbed.bottleneck, str) or perturbed.bottleneck.hidden_label
    return [] if hidden else [output for output in declared if output["kind"] == "label"]


def _replayed(subject: Subject, x: np.ndarray, drawn: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The same samples through the same artefact here, with the noise that was drawn there."""
    manifest = {**subject.manifest, "outputs": [*subject.manifest["outputs"], *further_outputs(subject)]}
    places = [slice(at, at + ROWS_AT_ONCE) for at in range(0, len(x), ROWS_AT_ONCE)]
    with contextlib.closing(load_pipeline(parse(manifest), subject.members, subject.runs_here())) as pipeline:
        pieces = [pipeline.run(x[at], {name: value[at] for name, value in drawn.items()}) for at in places]
    return {name: np.concatenate([piece[name] for piece in pieces]) for name in pieces[0]}


def _compared(name: str, kind: str, here: np.ndarray, there: np.ndarray, cluster: np.ndarray | None) -> dict[str, Any]:
    """How many samples differ, the share with its interval, and a frame's largest difference."""
    other = (here != there).reshape(len(here), -1).any(axis=1)
    share, low, high = map(plain, intervals.rate(other, cluster))
    apart = np.abs(here.astype(np.float64) - there.astype(np.float64)).max() if kind == "frame" else None
    differ = {"what": name, "kind": kind, "differ": int(other.sum()), "share": share, "low": low, "high": high}
    return {**differ, "max_abs": None if apart is None else round(float(apart), 6)}


class OnBoardSection(Section):
    """A board's outputs next to those made here."""

    name = "on_board"
    order = 1

    def applies(self, about: About) -> bool:
        """Where a board made the outputs."""
        return about.there is not None

    def keys(self, about: About) -> dict[str, Any]:
        """``on_board``, as ``section``."""
        on_board = cast(OnBoard, about.there)
        target = about.classifiers["target"]
        return {self.name: section(on_board, about.subject, about.dataset, about.perturbed, target)}
