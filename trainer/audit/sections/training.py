"""What a private training spends at the least, by running its mechanisms: bounds from below on mu.

A Gaussian mechanism is mu-private: the laws of two neighbours lie mu = 1 / sigma deviations apart at most, whatever is
made of them (Dong, Roth and Su, "Gaussian Differential Privacy", 2022). One step of DP-SGD is run on a linear model
with the bundle's clip and noise, with and without one unit in its lot, and seen along the gradient that differs (Nasr
et al. 2023). A bound above 1 / sigma proves that less is hidden than the accountant was told; one below proves nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from edgeveil.trainer.audit.findings import Finding
from edgeveil.trainer.audit.sections import About, Section
from edgeveil.trainer.ext import private
from edgeveil.trainer.ext.private import Claim, Clipped, Plan, Secret, noisy_mean, noisy_means
from edgeveil.trainer.measures.black_box import Apart, mu_lower_bound

CONFIDENCE = 1 - 1e-6  # of all mechanisms together: a sound one is refused once in a million audits
STEPS = 1_000_000  # half of them judge
MEANS = 40_000
FEATURES, CLASSES = 3, 2
AROUND = 200  # units next to the one that differs
FAR = 100.0  # of its gradient, so that it is clipped

Facts = Mapping[str, Any]


def measured(facts: Facts, *, others: int = 0) -> list[Finding]:
    """A finding for each mechanism of ``facts``, run.json's ``private``: mu as claimed, and at least.

    So many ``others`` that are run next to them have a share of the confidence.
    """
    step = partial(_step, facts["units"])
    known: list[tuple[str, str, Callable[[Facts, float], Apart]]] = [
        ("encoder", "a step of DP-SGD with the unit in its lot", step),
        ("trunk", "a step of DP-SGD with the unit in its lot, of the trunk", step),
        ("codes", "a step of DP-SGD with the unit in its lot, of the codes", step),
        ("pictures", "the pictures", _means),
    ]
    present = [one for one in known if one[0] in facts]
    if not present:
        raise AssertionError(f"none of {[one[0] for one in known]} is in {sorted(facts)}")
    confidence = shared(len(present) + others)
    tested = [(mechanism, run(facts[key], confidence), facts[key]["sigma"]) for key, mechanism, run in present]
    return [judged("training", mechanism, "mu", 1 / sigma, apart.mu, apart.runs) for mechanism, apart, sigma in tested]


def judged(section: str, mechanism: str, figure: str, claimed: float, least: float | None, runs: int) -> Finding:
    """What is claimed of a mechanism, and what ``runs`` have shown to be spent at the ``least``; None where no number
    is enough."""
    holds = least is not None and least <= claimed
    text = (
        f"Of {mechanism}, {figure} is {claimed:.4g} as claimed and at least "
        f"{'any number (no noise)' if least is None else format(least, '.4g')} by {runs:,} runs of each of two "
        "neighbours"
        + (", not above the claim." if holds else ": the claim does not hold. Do not ship this, and report it.")
    )
    more = {"kind": section, "claimed": claimed, "holds": holds, "confidence": CONFIDENCE}
    return Finding(section, mechanism, figure, least, rows=runs, text=text, more=more)


def promised(section: str, found: Facts, mechanism: str) -> Finding:
    """The promise about the people behind the training data: a bound where it is ``given``, else why it is none."""
    more = {key: value for key, value in found.items() if key not in ("given", "sentence", "mechanism")}
    facts: dict[str, Any] = {"more": {"kind": section, **more}}
    if not found["given"]:
        return Finding(section, mechanism, not_run=found["sentence"], **facts)
    return Finding(section, mechanism, "epsilon", found["epsilon"], bound=True, text=found["sentence"], **facts)


def shared(mechanisms: int) -> float:
    """The confidence of each bound, so that all of them hold together with ``CONFIDENCE``."""
    return 1 - (1 - CONFIDENCE) / mechanisms


def _step(units: int, encoder: Facts, confidence: float) -> Apart:
    """One step of DP-SGD, by its own clipped sums and its own noise."""
    import keras
    import tensorflow as tf

    model = keras.Sequential([keras.Input((FEATURES,)), keras.layers.Dense(1)])
    model.set_weights([np.zeros((FEATURES, 1)), np.zeros(1)])
    x = np.array([np.full(FEATURES, FAR), np.zeros(FEATURES)], np.float32)

    def loss(out: Any, label: Any) -> Any:
        return tf.reduce_sum(out * label, axis=1)

    sums = []
    for in_lot in (1.0, 0.0):
        mask = np.array([in_lot, 1.0], np.float32)  # the other unit of the lot is in it either way
        clipped, *_ = Clipped(model).sums(x, np.ones((2, 1), np.float32), loss, encoder["clip"], mask)
        sums.append(np.concatenate([np.asarray(one, np.float64).reshape(-1) for one in clipped]))
    return noisy_steps(sums, units, encoder, confidence)


def noisy_steps(sums: Sequence[np.ndarray], units: int, facts: Facts, confidence: float) -> Apart:
    """The clipped sums (weights,) of a lot with the unit and without it, each with the training's own noise."""
    claim = Claim(**{name: facts[name] for name in Claim.__dataclass_fields__})
    plan = Plan(units, facts["lot"], 1, facts["clip"], claim)
    apart = sums[0] - sums[1]
    scores: list[np.ndarray] = []
    for one in sums:
        (seen,) = noisy_mean([np.broadcast_to(one, (STEPS, len(one)))], plan, Secret())
        scores.append(np.asarray(seen @ apart))
    return mu_lower_bound(*scores, confidence=confidence)


def _means(pictures: Facts, confidence: float) -> Apart:
    """Pictures of the classes, with and without a unit at a corner of the cube."""
    u = np.full((AROUND + 1, FEATURES), 0.5, np.float32)
    u[-1] = 1.0
    labels = np.arange(AROUND + 1) % CLASSES
    noise = Secret()
    scores: list[np.ndarray] = []
    for count in (AROUND + 1, AROUND):
        alone = [np.array([row]) for row in range(count)]
        arguments = u[:count], labels[:count], CLASSES, alone
        drawn = [noisy_means(*arguments, sigma=pictures["sigma"], noise=noise)[labels[-1]] for _ in range(MEANS)]
        scores.append(np.asarray(drawn, np.float64).sum(axis=1))
    return mu_lower_bound(*scores, confidence=confidence)


class Training(Section):
    """What the bundle promises the people behind its training data."""

    name = "training"
    order = 3

    def applies(self, about: About) -> bool:
        """Where the training was to be private."""
        return private.section(about.subject.manifest) is not None

    def measure(self, about: About, _found: Sequence[Finding]) -> list[Finding]:
        """The promise; and what is spent at least, where that was asked for."""
        findings = [promised("training", private.section(about.subject.manifest) or {}, "[private]")]
        if about.spending:
            others = int(private.HEAD in about.perturbed.outputs)
            findings += measured(about.run.facts["private"], others=others)
        return findings
