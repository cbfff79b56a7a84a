"""The ``streams`` section of an audit: what many releases of one track tell, made by the artefact itself.

Tracks are the recordings of the data. Attackers learn on those of the slice ``attack``, where there is one, else of the
second, and are tested on those of the test slice. ``people_shuffled`` is what the same attackers reach where people are
shuffled within y: what chance and few tracks alone show. A held track releases one class, so its certificate counts
tracks and holds for all of its releases; where nothing is held a certificate is for a single release.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np
from scipy import special

from edgeveil.trainer.attacks import sequences
from edgeveil.trainer.attacks.rows import freshest
from edgeveil.trainer.attacks.sequences import Tracks, timed
from edgeveil.trainer.audit.findings import Finding, as_findings
from edgeveil.trainer.audit.sections import About, Section
from edgeveil.trainer.audit.subject import track_perturber
from edgeveil.trainer.datasets.base import Dataset, Part
from edgeveil.trainer.measures import certificate
from edgeveil.trainer.measures.attack_metrics import accuracy, counted_prior

# A 1-D convolutional network on the codes of a track, in order of time.
#
# Tracks are few, so it is small, starts from log P(z|y) and sees all of them in every step.


WIDTH = 24
STEPS = 45
RATE = 1.2e-2
DECAY = 0.02


def sequence_network(
    fit: Tracks, test: Tracks, *, classes: tuple[int, int], codes: int, steps: int = STEPS, seed: int = 0
) -> np.ndarray:
    """P(z | y, codes of the track in order), (tracks, classes of z), by two convolutions over time."""
    import tensorflow as tf

    model, optimizer, step = _network(fit.code.shape[1], codes + classes[0], classes[1])
    rng = np.random.default_rng(seed)
    model.set_weights([_fresh(weight.shape, rng) for weight in model.get_weights()])
    for variable in optimizer.variables:
        if variable is not optimizer.learning_rate:
            variable.assign(tf.zeros_like(variable))
    start = np.log(counted_prior(fit.y, fit.z, classes)).astype(np.float32)
    x, prior = tf.constant(timed(fit, classes=classes[0], codes=codes)), tf.constant(start[fit.y])
    z = tf.constant(fit.z, tf.int32)
    for _ in range(steps):
        step(x, prior, z)
    scores = model(timed(test, classes=classes[0], codes=codes)).numpy() + start[test.y]
    return np.asarray(special.softmax(scores, axis=1))


@functools.lru_cache(maxsize=8)
def _network(length: int, width: int, classes: int) -> tuple[Any, Any, Any]:
    """The network of that size, its optimizer and its step, traced once however many are trained."""
    import keras
    import tensorflow as tf

    from edgeveil.models.classifiers import track_network

    model = track_network(length, width, classes, channels=WIDTH)
    optimizer = keras.optimizers.AdamW(RATE, weight_decay=DECAY)
    optimizer.build(model.trainable_variables)

    @tf.function(reduce_retracing=True)
    def step(x: Any, prior: Any, z: Any) -> None:
        with tf.GradientTape() as tape:
            answers = model(x, training=True) + prior
            each = keras.losses.sparse_categorical_crossentropy(z, answers, from_logits=True)
            loss = tf.reduce_sum(each) / tf.cast(tf.size(each), each.dtype)
        optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)

    return model, optimizer, step


def _fresh(shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """He's start for kernels, zeros for biases."""
    if len(shape) == 1:
        return np.zeros(shape, np.float32)
    return (rng.normal(size=shape) * np.sqrt(2 / np.prod(shape[:-1]))).astype(np.float32)


# Attackers of whole tracks: every family at T = 1, 4 and 16 releases. Compare every result with the zero-information
# row: what the same attackers reach with as many tracks where there is no leak.

LENGTHS = (1, 4, 16)

Attack = Callable[..., np.ndarray]
FAMILIES: Mapping[str, Attack] = {
    "sum of log-posteriors": sequences.log_posteriors,
    "forest on histograms": sequences.histogram_forest,
    "forest on timed codes": sequences.timed_forest,
    "1-D CNN": sequence_network,
}
IN_ORDER = ("forest on timed codes", "1-D CNN")  # on the longest tracks alone: few releases have little order


def posteriors(
    fit: Tracks, test: Tracks, *, classes: tuple[int, int], codes: int, seed: int = 0, trees: int = 300
) -> dict[str, np.ndarray]:
    """P(z | y, codes), (tracks, classes of z), of ``test`` by every family that learned on ``fit``."""
    found = {}
    for name, attack in FAMILIES.items():
        if name in IN_ORDER and fit.code.shape[1] < max(LENGTHS):
            continue
        options: dict[str, int] = {}
        if "forest" in name:
            options["trees"] = trees
        if "forest" in name or name in IN_ORDER:
            options["seed"] = seed
        found[name] = attack(fit, test, classes=classes, codes=codes, **options)
    return found


def permuted(tracks: Tracks, rng: np.random.Generator) -> Tracks:
    """The same tracks with z shuffled within y: the null, what attackers find where there is no leak."""
    z = tracks.z.copy()
    for value in np.unique(tracks.y):
        rows = np.flatnonzero(tracks.y == value)
        z[rows] = tracks.z[rng.permutation(rows)]
    return replace(tracks, z=z)


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
    rows = [_row(length, slices, classes, trees, seed) for length in LENGTHS]
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
    for name, learn in (("right", fit), ("people_shuffled", permuted(fit, rng))):
        answers = posteriors(learn, test, classes=classes, codes=codes, trees=trees, seed=seed)
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


class Streams(Section):
    """Many releases of one track, of bundles that hold something for a track or a period."""

    name = "streams"
    order = 10

    def applies(self, about: About) -> bool:
        """Where the bundle is for a stream, and runs here."""
        return about.there is None and about.subject.manifest.get("stream") is not None

    def measure(self, about: About, _found: Sequence[Finding]) -> list[Finding]:
        """As ``section``; the bound over tracks, where enough of them were counted."""
        perturb, stream = track_perturber(about.subject, about.run), about.subject.manifest["stream"]
        trees, tried = about.budget.trees, about.asked.tried
        found = section(stream, about.dataset, perturb, trees=trees, seed=about.seed, tried=tried)
        made = as_findings(self.name, found)
        counted = found.get("certificate", {})
        if not counted.get("given"):
            return made
        facts = {"bound": True, "text": found["sentence"], "more": {"kind": self.name}}
        return [*made, Finding("tracks", "counted channel", "right", counted["bound"], rows=counted["rows"], **facts)]
