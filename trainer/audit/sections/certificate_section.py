"""The ``certificate`` section of an audit: counted on the codes of the very artefact that was audited."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.attacks import sequences
from edgeveil.trainer.audit.dataflow import RELEASED, SENT, Bottleneck
from edgeveil.trainer.datasets.base import Dataset
from edgeveil.trainer.measures import attack_metrics, certificate
from edgeveil.trainer.measures.channels import total_variation

RELEASES = (1, 4, 16)
DRAWS = 20_000
HALVINGS = 8
SINGLE = "single release only: nothing was counted on sequences as they really occur"
HELD = "a held {unit} is one release, counted as if each reading stood for a whole one; real ones are under streams"


def refused(reason: str) -> dict[str, Any]:
    """The section where there is nothing to certify, and why."""
    return {"given": False, "sentence": f"No certificate: {reason}."}


def section(
    dataset: Dataset,
    found: Bottleneck,
    outputs: Mapping[str, np.ndarray],
    *,
    table: np.ndarray | None,
    tried: int,
    confidence: float,
    strata: np.ndarray | None,
    seed: int,
    stream: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Certify what left for the rows of the three slices, in their order; counted on the test slice.

    ``outputs`` has ``sent`` (c) and ``released`` (c') of those rows, ``table`` (codes, codes') is the channel between
    them, None where c' = c. ``strata`` (N,) are those rows of the data set within which z is exchangeable by design.
    ``stream`` is the manifest's.
    """
    rng = np.random.default_rng(seed)
    classes = len(dataset.y_names), len(dataset.z_names)
    codes = _number(found, outputs[SENT], classes[0])
    q = np.eye(codes) if table is None else table / table.sum(axis=1, keepdims=True)
    test = dataset.part("test")
    sent, released = outputs[SENT].astype(np.int64), outputs[RELEASED].astype(np.int64)
    first = len(sent) - len(test)
    training = dataset.slices.training()
    prior = attack_metrics.counted_prior(dataset.y[training], dataset.z[training], classes)
    certified = certificate.certify(
        test.y,
        sent[first:],
        test.z,
        channel=q,
        classes=classes,
        chance=attack_metrics.chance(dataset.theta, prior, test.y, test.z).majority,
        cluster=test.cluster,
        strata=None if strata is None else strata[test.index],
        confidence=confidence,
        tried=tried,
        hidden_label=found.hidden_label,
        rng=rng,
    )
    of = unit_of(dataset)
    joint = certificate.count(test.y, sent[first:], test.z, shape=(classes[0], codes, classes[1]))
    learned = slice(len(dataset.slices.classifiers), first)
    groups = 1 if found.hidden_label else classes[0]
    halves = None
    if dataset.cluster_kind == "subject":
        halves = people_certificate(test.y, sent[first:], test.z, test.cluster, q=q, classes=classes, rng=rng)
    return {
        "given": certified.sufficient,
        "sentence": certified.sentence(of),
        "population_free": population_free(certified.capacity, hidden_label=found.hidden_label),
        **{name: _short(value) for name, value in asdict(certified).items()},
        "unit": of,
        "needed": {"within_10_points": certified.needed(10), "within_5_points": certified.needed(5)},
        "people": _people(dataset, halves),
        "people_splits": halves,
        "total_variation": None if table is None else _short(_variation(q, groups)),
        "releases": {
            "scope": _scope(stream),
            "same_x": [
                {"releases": t, "accuracy": _short(sequences.repeated(joint, q, releases=t, draws=DRAWS, rng=rng))}
                for t in (RELEASES if table is not None else ())
            ]
            or [{"releases": t, "accuracy": _short(certified.plug_in)} for t in RELEASES],
            "different_x": linked_samples(
                dataset, released[learned], released[first:], codes=q.shape[1], classes=classes, rng=rng
            ),
        },
    }


def linked_samples(
    dataset: Dataset,
    learn: np.ndarray,
    judge: np.ndarray,
    *,
    codes: int,
    classes: tuple[int, int],
    rng: np.random.Generator,
) -> list[dict[str, Any]]:
    """T samples of one (y, z), linked: how often the sum of log-posteriors on their codes c' is right about z.

    ``learn`` are the codes of the second slice, which the attack learns from, ``judge`` those of the test slice.
    """
    second, test = dataset.part("perturber"), dataset.part("test")
    found: list[dict[str, Any]] = []
    for length in RELEASES:
        try:
            fit = sequences.pooled(learn, second.y, second.z, length=length, rng=rng)
            tracks = sequences.pooled(judge, test.y, test.z, length=length, rng=rng)
        except BadInput:
            found.append(
                {"releases": length, "not_run": f"a slice has no {length} readings of one y and one z: give more"}
            )
            continue
        p = sequences.log_posteriors(fit, tracks, classes=classes, codes=codes)
        auc = attack_metrics.auc_within_y(p, tracks.y, tracks.z)
        found.append(
            {
                "releases": length,
                "tracks": len(tracks),
                "accuracy": _short(float((p.argmax(axis=1) == tracks.z).mean())),
                "auc": _short(auc) if np.isfinite(auc) else None,
            }
        )
    return found


def population_free(capacity: float, *, hidden_label: bool) -> str:
    """What the channel alone says, whatever the population: its multiplicative Bayes capacity, in words."""
    given = "" if hidden_label else " than y-hat alone does"
    if capacity <= 1 + 1e-9:
        return f"Whatever the population, one code raises nobody's chance of being right about anything further{given}."
    return (
        "Whatever the population and whatever is asked, one code raises the chance of being right by a factor of at "
        f"most {capacity:.3g}{' over what y-hat alone gives' if given else ''}."
    )


def unit_of(dataset: Dataset) -> str:
    """What the independent units of a data set are called, in the plural."""
    return {"subject": "subjects", "session": "recordings", None: "readings"}[dataset.cluster_kind]


def strata_of(dataset: Dataset, names: list[str]) -> np.ndarray | None:
    """Rows (N,) numbered by the values of some attributes; None without any. Raises ``BadInput`` for an unknown one."""
    if not names:
        return None
    for name in names:
        if name not in dataset.attributes:
            known = ", ".join(sorted(dataset.attributes)) or "none"
            raise BadInput(f'certificate.strata: there is no attribute "{name}" in these data; there are: {known}.')
    values = np.stack([dataset.y.astype(np.float64), *(dataset.attributes[name] for name in names)], axis=1)
    return np.unique(values, axis=0, return_inverse=True)[1].reshape(-1)


def _number(found: Bottleneck, sent: np.ndarray, classes: int) -> int:
    if found.rows is not None:
        return found.rows
    return -(-(int(sent.max()) + 1) // classes) * classes


def _variation(q: np.ndarray, groups: int) -> float:
    """The largest total variation between two codes of one class: how far what leaves can shift with x."""
    return max(total_variation(block) for block in q.reshape(groups, -1, q.shape[1]))


def _scope(stream: Mapping[str, Any] | None) -> str:
    hold = (stream or {}).get("hold")
    if hold == "track":
        return f"single release only: {HELD.format(unit='track')}"
    if hold == "period":
        return f"single release only: {HELD.format(unit='period of a class')}"
    if hold == "frame":
        return f"{SINGLE}, and here every frame is a release: codes of one person add up"
    return SINGLE


def people_certificate(
    y: np.ndarray,
    code: np.ndarray,
    z: np.ndarray,
    person: np.ndarray | None,
    *,
    q: np.ndarray,
    classes: tuple[int, int],
    rng: np.random.Generator,
    halvings: int = HALVINGS,
) -> dict[str, Any] | None:
    """How much what is counted depends on who is counted: the people cut in two halves, again and again.

    Rows y, code (before the channel ``q``), z and ``person`` (n,). By half ``plug_in``, the counted best guess of z,
    and ``learned_on_others``, how often the best guess that was counted on one half is right on the other: no noise of
    counting helps it. Each as mean, low and high over the halves. None where fewer than four people are there.
    """
    if person is None or len(people := np.unique(person)) < 4:
        return None
    shape = (classes[0], len(q), classes[1])
    counted, learned = [], []
    for _ in range(halvings):
        first = np.isin(person, rng.permutation(people)[: len(people) // 2])
        halves = [
            certificate.released_counts(certificate.count(y[rows], code[rows], z[rows], shape=shape), q)
            for rows in (first, ~first)
        ]
        counted += [certificate.bayes_accuracy(half) for half in halves]
        learned += [_guessed(one, other) for one, other in (halves, halves[::-1])]
    return {
        "halvings": halvings,
        "people": len(people),
        "plug_in": _range(counted),
        "learned_on_others": _range(learned),
    }


def _guessed(learn: np.ndarray, judge: np.ndarray) -> float:
    """The share of the counts ``judge`` (Y, C, Z) that the best guess of z by ``learn`` gets right."""
    # A code that was never seen with this y falls back on what is known of y: its counts are far below one row.
    prior = learn.sum(axis=1, keepdims=True) / max(learn.sum(), 1.0)
    best = (learn + 1e-6 * prior).argmax(axis=2)[..., None]
    return float(np.take_along_axis(judge, best, axis=2).sum() / judge.sum())


def _range(values: list[float]) -> dict[str, float]:
    return {"mean": _short(float(np.mean(values))), "low": _short(min(values)), "high": _short(max(values))}


def _people(dataset: Dataset, halves: Mapping[str, Any] | None) -> str:
    if dataset.cluster_kind == "subject":
        text = "Counted on people whom training never saw, in one split of them"
        if halves is None:
            return f"{text}; other splits were not run."
        counted, learned = (
            f"{100 * halves[name]['low']:.1f} to {100 * halves[name]['high']:.1f} %"
            for name in ("plug_in", "learned_on_others")
        )
        return (
            f"{text}. Over {halves['halvings']} halvings of the people counted the best guess is right {counted} of "
            f"the time on a half, and {learned} where it was learned on the other half. The training was one."
        )
    if dataset.cluster_kind == "session":
        return "Counted on recordings that training never saw, which may be of people that it did."
    return "The data do not say who is who, so people counted may have been in training too."


def _short(value: Any) -> Any:
    return round(float(value), 6) if isinstance(value, (float, np.floating)) else value
