"""The ``streams`` section of an audit: what many releases of one track tell, made by the artefact itself.

It is asked of everything that is for a camera or a series. Tracks are the recordings of the data; where these have
none, different samples of one (y, z), as if linked. Attackers learn on those of the slice ``attack``, where there is
one, else of the second, and are tested on those of the test slice. ``people_shuffled`` is what the same attackers
reach where people are shuffled within y: what chance and few tracks alone show. Where outputs are no codes, the
answers of the attack with most bits are added up over a track. The headline is of the longest tracks that there are.

A held track releases one class, or the code of its first frame, so its certificate counts tracks and holds for all of
its releases; where nothing is held a certificate is for a single release.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np
from scipy import special

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.manifest.stream_bound import ONE_CLASS, ONE_FRAME, stream_bound
from edgeveil.trainer.attacks import sequences
from edgeveil.trainer.attacks.findings import Scored
from edgeveil.trainer.attacks.rows import freshest, prior
from edgeveil.trainer.attacks.sequences import LENGTHS, Tracks, added_up, timed
from edgeveil.trainer.audit.findings import Finding
from edgeveil.trainer.audit.sections import About, Section
from edgeveil.trainer.audit.subject import track_perturber
from edgeveil.trainer.datasets.base import Dataset, Part
from edgeveil.trainer.measures import attack_metrics, certificate, intervals
from edgeveil.trainer.measures.attack_metrics import accuracy, counted_prior
from edgeveil.trainer.measures.enough import ROWS_OF_A_VALUE
from edgeveil.trainer.measures.intervals import Interval, unit_numbers

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


# Attackers of whole tracks: every family at each T. Compare every result with the zero-information row: what the same
# attackers reach with as many tracks where there is no leak.

Attack = Callable[..., np.ndarray]
FAMILIES: Mapping[str, Attack] = {
    "sum of log-posteriors": sequences.log_posteriors,
    "forest on histograms": sequences.histogram_forest,
    "forest on timed codes": sequences.timed_forest,
    "1-D CNN": sequence_network,
}
IN_ORDER = ("forest on timed codes", "1-D CNN")  # on long tracks alone: few releases have little order
LONG = 16
MOST_INPUTS = 2e8  # codes of all tracks as one-hot numbers


def posteriors(
    fit: Tracks,
    test: Tracks,
    *,
    classes: tuple[int, int],
    codes: int,
    seed: int = 0,
    trees: int = 300,
    ordered: bool = True,
) -> dict[str, np.ndarray]:
    """P(z | y, codes), (tracks, classes of z), of ``test`` by every family that learned on ``fit``.

    ``ordered``: releases are in order of time.
    """
    by_family = {}
    in_order = ordered and fit.code.shape[1] >= LONG and (fit.code.size + test.code.size) * codes <= MOST_INPUTS
    for name, attack in FAMILIES.items():
        if name in IN_ORDER and not in_order:
            continue
        options: dict[str, int] = {}
        if "forest" in name:
            options["trees"] = trees
        if "forest" in name or name in IN_ORDER:
            options["seed"] = seed
        by_family[name] = attack(fit, test, classes=classes, codes=codes, **options)
    return by_family


def permuted(tracks: Tracks, rng: np.random.Generator) -> Tracks:
    """The same tracks with z shuffled within y: the null, what attackers find where there is no leak."""
    z = tracks.z.copy()
    for value in np.unique(tracks.y):
        rows = np.flatnonzero(tracks.y == value)
        z[rows] = tracks.z[rng.permutation(rows)]
    return replace(tracks, z=z)


FEWEST = 20  # tracks to learn on, and to judge by
NOTHING = 0.5  # the area under the curve of an attack that knows nothing beyond y
RECORDINGS, LINKED = "recordings", "linked samples of one y and z"  # what tracks are

Perturb = Callable[[np.ndarray, np.ndarray], Mapping[str, np.ndarray]]
Outputs = Callable[[Part], Mapping[str, np.ndarray]]


def section(
    stream: Mapping[str, Any] | None,
    dataset: Dataset,
    perturb: Perturb,
    *,
    trees: int,
    seed: int,
    tried: int = 1,
    looks: int = 0,
    attack: Scored | None = None,
    sent: Mapping[str, np.ndarray] | None = None,
    one_release: str = "",
) -> list[Finding]:
    """What tracks reveal, and the bound over them. ``stream`` is the manifest's; ``tried`` and ``looks`` share the
    confidence, as in ``certificate.Certificate``.

    ``perturb`` takes raw samples (n, ...) and the number of each one's track (n,), in order of time, to the outputs.
    ``attack`` is the one with most bits on single releases, for outputs that are no codes. Of a stream that holds
    nothing ``sent`` may be given in place of ``perturb``'s: the outputs for the rows of all slices, in their order.
    ``one_release`` names the output that a whole track is one release of, empty where there is none.
    """
    hold = "none" if stream is None else stream["hold"]
    if dataset.cluster is None and hold not in ("none", "frame"):
        reason = "the data have neither subjects nor sessions, so tracks are not known"
        return [Finding(TRACKS, "tracks", not_run=reason, more=KIND)]
    place = np.empty(len(dataset.y), np.int64)
    place[dataset.slices.rows()] = np.arange(len(dataset.slices.rows()))

    def outputs(part: Part) -> Mapping[str, np.ndarray]:
        if sent is not None:
            return {name: value[place[part.index]] for name, value in sent.items()}
        return perturb(part.x, unit_numbers(len(part), part.cluster))

    slices = {}
    for name, part in (("learn", dataset.part(freshest(dataset))), ("test", dataset.part("test"))):
        in_time = part.take(np.argsort(part.index))
        slices[name] = in_time, outputs(in_time)
    codes = _codes([out for _, out in slices.values()])
    if attack is not None and len(codes[0]) < ROWS_OF_A_VALUE * len(np.unique(np.concatenate(codes))):
        codes = []
    about = hold, dataset, slices, codes, trees, seed, attack
    findings = [one for length in LENGTHS for one in _of_length(length, *about)]
    most = longest(findings)
    if most is not None:
        text = headline(findings, most)
        findings[findings.index(most)] = replace(most, text=text, more={**most.more, "headline": True})
    if hold == "track" and one_release in slices["test"][1]:
        classes = len(dataset.y_names), len(dataset.z_names)
        findings += _certified(dataset, slices["test"], classes, seed, (tried, looks), one_release)
    return findings


KIND = {"kind": "streams"}
TRACKS = "tracks"
Slice = tuple[Part, Mapping[str, np.ndarray]]


def _of_length(
    length: int,
    hold: str,
    dataset: Dataset,
    slices: Mapping[str, Slice],
    codes: list[np.ndarray],
    trees: int,
    seed: int,
    attack: Scored | None,
) -> Iterator[Finding]:
    """The findings about tracks of one length: ``right`` and ``auc`` by every family, or why there are none.

    ``more`` has the number of ``releases``, what the tracks are ``of``, and what the family reaches of ``shuffled``
    people. ``hold`` is how the stream is held; ``slices`` are those to learn on and to test on, with what was sent, and
    ``codes`` what was sent of each as numbers: none where it is no codes.
    """
    rng = np.random.default_rng(seed)
    chosen_parts = [part for part, _ in (slices.values() if codes else [slices["test"]])]
    cut, of = [_recorded(part, dataset, length) for part in chosen_parts], RECORDINGS
    if min(map(len, cut)) < FEWEST and hold in ("none", "frame"):
        with contextlib.suppress(BadInput):
            cut, of = [_linked(part, length, np.random.default_rng([seed, length])) for part in chosen_parts], LINKED
    if (few := min(map(len, cut))) < FEWEST:
        reason = f"{few} {of} of {length} readings; at least {FEWEST} are needed"
        yield Finding(TRACKS, f"{length} readings", not_run=reason, more={**KIND, "releases": length})
        return
    classes, part = (len(dataset.y_names), len(dataset.z_names)), slices["test"][0]
    rows, unit = cut[-1], None
    if of == RECORDINGS and dataset.cluster_kind == "subject":
        unit = np.asarray(part.cluster)[rows.code[:, 0]]  # several tracks of one person
    if codes:
        fit, test = (replace(one, code=code[one.code]) for one, code in zip(cut, codes, strict=True))
        number = int(max(fit.code.max(), test.code.max())) + 1
        settings: dict[str, Any] = {"classes": classes, "codes": number, "trees": trees, "seed": seed}
        settings["ordered"] = of == RECORDINGS
        answers = posteriors(fit, test, **settings)
        shuffled = posteriors(permuted(fit, rng), test, **settings)
        chance = accuracy(counted_prior(fit.y, fit.z, classes)[test.y], test.z)
    else:
        attack, test, shuffled = cast(Scored, attack), rows, {}
        place = np.empty(len(dataset.y), np.int64)
        place[cast(np.ndarray, attack.test.row)] = np.arange(len(attack.test))
        known = prior(dataset)
        linked = replace(rows, code=place[part.index[rows.code]])
        answers = {f"sum of {attack.row.label}": added_up(attack.sure["test"], known, linked)}
        chance = accuracy(known[test.y], test.z)
    wide = intervals.wider(len(answers))
    for name, p in answers.items():
        about = {"rows": len(test), "learned_on": LEARNED_ON[freshest(dataset)], "seed": seed}
        more: dict[str, Any] = {**KIND, "about": f"{length} readings", "releases": length, "of": of}
        if name in shuffled:
            more["shuffled"] = accuracy(shuffled[name], test.z)
        right = intervals.rate(p.argmax(axis=1) == test.z, unit)
        yield Finding.measured(TRACKS, name, "right", right, null=chance, more=more, **about)
        area = attack_metrics.auc_interval(p, test.y, test.z, unit)
        # The best of several families is named, so that the interval holds for all of them at once.
        low, high = (area.estimate + wide * (end - area.estimate) for end in area[1:])
        area = Interval(area.estimate, max(0.0, low), min(1.0, high))
        yield Finding.measured(TRACKS, name, "auc", area, null=NOTHING, more=more, **about)


LEARNED_ON = {"attack": "fresh", "perturber": "old"}


def longest(found: Sequence[Finding]) -> Finding | None:
    """The area of the best family on the longest tracks; None where there are none of several releases."""
    areas = [one for one in found if one.figure == "auc" and one.value is not None and one.more["releases"] > 1]
    return max(areas, key=lambda one: (one.more["releases"], one.value), default=None)


def headline(found: Sequence[Finding], most: Finding) -> str:
    """What the longest tracks tell, in words; ``most`` is the area of the best family on them."""
    releases, of = most.more["releases"], most.more["of"]
    same = [one for one in found if one.name == most.name and one.more["releases"] == releases]
    right = next(one for one in same if one.figure == "right")
    return (
        f"Over {releases} readings of one track ({right.rows:,} tracks, {of}) the best attack found ({most.name}) has "
        f"AUC {most.shown()} and is right {right.shown()}, where y alone gives {100 * cast(float, right.null):.1f} %."
    )


def _recorded(part: Part, dataset: Dataset, length: int) -> Tracks:
    """Places of the rows of tracks in ``part``, by its recordings; none where no one is long enough."""
    place = np.arange(len(part))
    if dataset.cluster_kind == "session":
        return ends(part, place, length)
    with contextlib.suppress(BadInput):
        if part.cluster is not None:
            track = unit_numbers(len(part), part.cluster)
            return sequences.cut(place, part.y, part.z, track=track, length=length)
    return Tracks(np.empty((0, length), np.int64), part.y[:0], part.z[:0])


def _linked(part: Part, length: int, rng: np.random.Generator) -> Tracks:
    return sequences.pooled(np.arange(len(part)), part.y, part.z, length=length, rng=rng)


def ends(part: Part, code: np.ndarray, length: int) -> Tracks:
    """The last ``length`` codes of each recording that has so many."""
    recordings = (np.flatnonzero(part.cluster == one) for one in np.unique(np.asarray(part.cluster)))
    rows = np.array([one[-length:] for one in recordings if len(one) >= length], np.int64).reshape(-1, length)
    return Tracks(code[rows], part.y[rows[:, 0]], part.z[rows[:, 0]])


def _codes(outs: Sequence[Mapping[str, np.ndarray]]) -> list[np.ndarray]:
    """What was sent of each slice as whole numbers: the code, else the label, else the number of a frame or report."""
    out = outs[0]
    for name in ("code", "label"):
        if name in out and out[name].dtype.kind in "iu" and out[name].ndim == 1:
            return [np.asarray(one[name]) for one in outs]
    name = "frame" if "frame" in out else next(iter(out))
    frames = np.concatenate([one[name].reshape(len(one[name]), -1) for one in outs])
    number = np.unique(frames, axis=0, return_inverse=True)[1].reshape(-1)
    return np.split(number, np.cumsum([len(one[name]) for one in outs])[:-1])


def _certified(
    dataset: Dataset, test: Slice, classes: tuple[int, int], seed: int, terms: tuple[int, int], name: str
) -> list[Finding]:
    """The bound on an adversary who knows y and the held class or code ``name`` of a track, counted over tracks; over
    those that have voted, where they vote."""
    part, out = test
    held = ends(part, np.asarray(out[name]), 1)
    if not len(held):
        return []
    number = classes[0]
    if name == "code":
        number *= -(-(int(held.code.max()) + 1) // classes[0])
    held = held.take(held.code[:, 0] < number)
    prior, rows, (tried, looks) = counted_prior(part.y, part.z, classes), (held.y, held.code[:, 0], held.z), terms
    settings: dict[str, Any] = {"classes": classes, "tried": tried, "looks": looks, "rng": np.random.default_rng(seed)}
    chance = float(prior.max(axis=1)[held.y].mean())
    certified = certificate.certify(*rows, channel=np.eye(number), chance=chance, **settings)
    text = certified.sentence(f"tracks ({dataset.cluster_kind}s)")
    whole = text.replace("For one sample,", "For all samples of one track together,")
    more = {**KIND, "plug_in": certified.plug_in, "tried": tried, "looks": looks}
    if not certified.sufficient:
        return [Finding(TRACKS, "counted channel", not_run=whole, rows=certified.units, more=more)]
    facts: dict[str, Any] = {"rows": certified.units, "bound": True, "text": whole, "more": more}
    return [Finding(TRACKS, "counted channel", "right", certified.bound, (certified.plug_in, certified.bound), **facts)]


class Streams(Section):
    """Many releases of one track, of bundles that are for a camera or a series."""

    name = "streams"
    order = 10
    last = True

    def applies(self, about: About) -> bool:
        """Where the bundle is for a stream, by what is held or by its sensor, and runs here."""
        manifest = about.subject.manifest
        return about.there is None and (manifest.get("stream") or manifest.get("capture")) is not None

    def measure(self, about: About, _found: Sequence[Finding]) -> list[Finding]:
        """As ``section``."""
        perturb, stream = track_perturber(about.subject, about.run), about.subject.manifest.get("stream")
        facts: dict[str, Any] = {"trees": about.budget.trees, "seed": about.seed}
        facts |= {"tried": about.asked.tried, "looks": about.looks}
        of = stream_bound(about.subject.manifest).kind if stream is not None else ""
        facts["one_release"] = {ONE_CLASS: "label", ONE_FRAME: "code"}.get(of, "")
        facts |= {"attack": about.attack, "sent": about.perturbed.outputs if stream is None else None}
        return section(stream, about.dataset, perturb, **facts)
