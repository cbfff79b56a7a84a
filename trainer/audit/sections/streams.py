"""The ``streams`` section of an audit: what many releases of one track tell, made by the artefact itself.

Tracks are the recordings of the data. Attackers learn on those of the slice ``attack``, where there is one, else of the
second, and are tested on those of the test slice. ``people_shuffled`` is what the same attackers reach where people are
shuffled within y: what chance and few tracks alone show. A held track releases one class, so its certificate counts
tracks and holds for all of its releases; where nothing is held a certificate is for a single release.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from edgeveil.trainer.attacks.rows import freshest
from edgeveil.trainer.attacks.sequences import Tracks
from edgeveil.trainer.audit.sections import tracks
from edgeveil.trainer.datasets.base import Dataset, Part
from edgeveil.trainer.measures import certificate
from edgeveil.trainer.measures.attack_metrics import accuracy, counted_prior

FEWEST = 20  # tracks to learn on, and to judge by

Perturb = Callable[[np.ndarray, np.ndarray], Mapping[str, np.ndarray]]


def section(
    stream: Mapping[str, Any], dataset: Dataset, perturb: Perturb, *, trees: int, seed: int, tried: int = 1
) -> dict[str, Any]:
    """The document's ``streams``. ``stream`` is the manifest's; ``tried`` configurations were compared on these rows.

    ``perturb`` takes raw samples (n, ...) and the number of each one's track (n,), in order of time, to the outputs.
    """
    found: dict[str, Any] = dict(stream)
    if dataset.cluster is None:
        return {**found, "not_run": "the data have neither subjects nor sessions, so tracks are not known"}
    slices = {"learn": _slice(dataset.part(freshest(dataset)), perturb), "test": _slice(dataset.part("test"), perturb)}
    classes = len(dataset.y_names), len(dataset.z_names)
    rows = [_row(length, slices, classes, trees, seed) for length in tracks.LENGTHS]
    found["tracks"] = rows
    if stream["hold"] == "track" and "label" in slices["test"][1]:
        found |= _certified(dataset, slices["test"], classes, seed, tried)
    return found


Slice = tuple[Part, Mapping[str, np.ndarray]]


def _slice(part: Part, perturb: Perturb) -> Slice:
    """The rows of a slice in order of time with what left of them."""
    part = part.take(np.argsort(part.index))
    track = np.unique(np.asarray(part.cluster), return_inverse=True)[1].reshape(-1)
    return part, perturb(part.x, track)


def ends(part: Part, code: np.ndarray, length: int) -> Tracks | None:
    """The last ``length`` codes of each recording that has so many; None where there is none."""
    pieces = []
    for number in np.unique(np.asarray(part.cluster)):
        rows = np.flatnonzero(part.cluster == number)
        if len(rows) >= length:
            pieces.append(rows[-length:])
    if not pieces:
        return None
    rows = np.stack(pieces)
    return Tracks(code[rows], part.y[rows[:, 0]], part.z[rows[:, 0]])


def _row(length: int, slices: Mapping[str, Slice], classes: tuple[int, int], trees: int, seed: int) -> dict[str, Any]:
    fit, test = (ends(part, _codes(out), length) for part, out in slices.values())
    few = min(0 if one is None else len(one) for one in (fit, test))
    if fit is None or test is None or few < FEWEST:
        return {"releases": length, "not_run": f"{few} recordings of {length} readings; at least {FEWEST} are needed"}
    codes = int(max(fit.code.max(), test.code.max())) + 1
    rng = np.random.default_rng(seed)
    found: dict[str, Any] = {"releases": length, "tracks": len(test)}
    for name, learn in (("right", fit), ("people_shuffled", tracks.permuted(fit, rng))):
        answers = tracks.posteriors(learn, test, classes=classes, codes=codes, trees=trees, seed=seed)
        found[name] = {family: accuracy(p, test.z) for family, p in answers.items()}
    found["chance"] = accuracy(counted_prior(fit.y, fit.z, classes)[test.y], test.z)
    return found


def _codes(out: Mapping[str, np.ndarray]) -> np.ndarray:
    """The output as whole numbers: the code, else the label, else the number of each different frame or report."""
    for name in ("code", "label"):
        if name in out and out[name].dtype.kind in "iu" and out[name].ndim == 1:
            return np.asarray(out[name])
    frames = out["frame"] if "frame" in out else out[next(iter(out))]
    frames = frames.reshape(len(frames), -1)
    return np.unique(frames, axis=0, return_inverse=True)[1].reshape(-1)


def _certified(dataset: Dataset, test: Slice, classes: tuple[int, int], seed: int, tried: int) -> dict[str, Any]:
    """The bound on an adversary who knows y and the held class of a track, counted over tracks that have voted."""
    part, out = test
    held = ends(part, np.asarray(out["label"]), 1)
    if held is None:
        return {}
    held = held.take(held.code[:, 0] < classes[0])
    prior = counted_prior(part.y, part.z, classes)
    found = certificate.certify(
        held.y,
        held.code[:, 0],
        held.z,
        channel=np.eye(classes[0]),
        classes=classes,
        chance=float(prior.max(axis=1)[held.y].mean()),
        tried=tried,
        rng=np.random.default_rng(seed),
    )
    text = found.sentence(f"tracks ({dataset.cluster_kind}s)")
    whole = text.replace("For one release,", "For all releases of one track together,")
    return {"certificate": {"given": found.sufficient, **asdict(found)}, "sentence": whole}
