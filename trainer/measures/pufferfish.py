"""Counted Pufferfish bounds of a finite channel: what a code c' adds about z to one who has y.

A codebook sends one of finitely many codes, so its law P(c' | y, z) is counted and no classifier is believed. For
secrets "z = a" and "z is another one" given y, (epsilon, delta)-Pufferfish (Kifer and Machanavajjhala 2014; section 4.2
of paper 001) asks of every set S of codes

    P(S | y, a) <= e^epsilon P(S | y, not a) + delta,  and the other way round.

The least delta is a sum over codes, max(0, p - e^epsilon q). Counted shares in the place of p and q give at least as
much on average (the sum is convex), and one independent unit moves it by at most 1 / n of p's and e^epsilon / n of q's
units: McDiarmid's inequality gives the upper end. "Not a" is a mixture of the other values of z. Over the recipe's
prior its weights are theta(z | y); over every prior with the same support the worst mixture is one value alone.

The bound for a loss of every code comes from Clopper and Pearson's ends of each P(c' | y, z): epsilon is the largest
log ratio of codes that were counted often, and delta the most that all others, errors of y-hat among them, can weigh.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from edgeveil.trainer.measures.enough import RATE
from edgeveil.trainer.measures.intervals import count, unit_numbers
from edgeveil.trainer.measures.per_code import drawn_rows, ends, upper_end

EPSILONS = (0.0, 0.1, 0.5, 1.0)


class Loss(NamedTuple):
    """(epsilon, delta) that hold together, and delta as counted."""

    epsilon: float
    delta: float
    estimate: float


@dataclass(frozen=True)
class Pufferfish:
    """Bounds for one release, all at once with ``confidence``: each holds for every y and every value of z.

    ``prior`` are those over the recipe's prior, ``supports`` those over every prior with its supports, one for each of
    ``EPSILONS``. ``codes`` is the loss of every code over such priors. ``units`` independent units were counted,
    ``fewest`` are those of the rarest pair of y and z: with fewer than ``RATE`` no bound is given, and all three are
    empty. ``tried`` configurations share the confidence (``certificate.shared``).
    """

    prior: tuple[Loss, ...]
    supports: tuple[Loss, ...]
    codes: Loss | None
    units: int
    fewest: int
    confidence: float
    tried: float


class _Secret(NamedTuple):
    """A value of y, and weights (values of z,) of the two laws that are compared."""

    y: int
    one: np.ndarray
    other: np.ndarray


def counted(
    y: np.ndarray,
    code: np.ndarray,
    z: np.ndarray,
    *,
    shape: tuple[int, int, int],
    theta: np.ndarray,
    rng: np.random.Generator,
    label: np.ndarray | None = None,
    cluster: np.ndarray | None = None,
    confidence: float = 0.95,
    tried: float = 1,
) -> Pufferfish:
    """Bound the codes c' (n,) of held-out rows y, z (n,): nothing of the codebook was fitted or chosen on them.

    ``shape`` is (classes of y, codes, classes of z), ``theta`` (classes of y, classes of z) the public prior P(z | y),
    ``label`` (codes,) the class that each code states, None where it states none, and ``cluster`` (n,) the independent
    units, of which one row each counts.
    """
    units = unit_numbers(len(y), cluster)
    draws = list(drawn_rows(units, rng))
    counts = np.stack([count(y[rows], code[rows], z[rows], shape=shape) for rows in draws])
    of_pair = counts.sum(axis=2)  # (draws, Y, Z)
    with np.errstate(divide="ignore", invalid="ignore"):
        laws = np.nan_to_num(counts / of_pair[:, :, None, :])  # P(c' | y, z)
    weight = np.zeros((int(units.max()) + 1, shape[0], shape[2]))  # of one unit in the law of its pair, on average
    for rows, number in zip(draws, of_pair, strict=True):
        weight[units[rows], y[rows], z[rows]] += 1 / number[y[rows], z[rows]] / len(draws)
    gram = np.einsum("uya,uyb->yab", weight, weight)
    support = (theta > 0) | (of_pair.min(axis=0) > 0)
    fewest = of_pair.min(axis=0)
    rarest = int(fewest[support].min()) if support.any() else 0
    facts: dict[str, Any] = {"units": int(units.max()) + 1, "fewest": rarest, "confidence": confidence, "tried": tried}
    if rarest < RATE:
        return Pufferfish((), (), None, **facts)
    by_prior, by_support = list(_of_prior(theta, support)), list(_of_supports(support))
    # Half of the error to the sums, half to the ends of each code.
    error = (1 - confidence) / tried / 2
    each = error / (len(EPSILONS) * (len(by_prior) + len(by_support)))

    def worst(secrets: list[_Secret]) -> Iterator[Loss]:
        least = 1.0  # the delta of a smaller epsilon is one of a larger, too
        for epsilon in EPSILONS:
            losses = [_delta(laws, gram, one, epsilon, each) for one in secrets]
            loss = max(losses, key=lambda loss: loss.delta, default=Loss(epsilon, 0.0, 0.0))
            least = min(least, loss.delta)
            yield loss._replace(delta=least)

    return Pufferfish(
        tuple(worst(by_prior)), tuple(worst(by_support)), _of_codes(counts, of_pair, support, label, error), **facts
    )


def _of_prior(theta: np.ndarray, support: np.ndarray) -> Iterator[_Secret]:
    """z = a against the mixture of the others by ``theta``, both ways round."""
    for y, row in enumerate(np.where(support, theta, 0.0)):
        for a in np.flatnonzero(row):
            one = np.eye(len(row))[a]
            others = row * (1 - one)
            if others.sum() > 0:
                others = others / others.sum()
                yield from (_Secret(y, one, others), _Secret(y, others, one))


def _of_supports(support: np.ndarray) -> Iterator[_Secret]:
    """Every two values of z that come with one y."""
    for y, row in enumerate(support):
        for a in np.flatnonzero(row):
            for b in np.flatnonzero(row):
                if a != b:
                    yield _Secret(y, np.eye(len(row))[a], np.eye(len(row))[b])


def _delta(laws: np.ndarray, gram: np.ndarray, secret: _Secret, epsilon: float, error: float) -> Loss:
    """The least delta of one pair of secrets with its upper end."""
    y, one, other = secret
    excess = laws[:, y] @ one - np.exp(epsilon) * (laws[:, y] @ other)
    estimate = float(np.maximum(excess, 0.0).sum(axis=1).mean())
    moved = one + np.exp(epsilon) * other
    slack = float(np.sqrt(np.log(1 / error) / 2 * (moved @ gram[y] @ moved)))
    return Loss(epsilon, min(1.0, estimate + slack), estimate)


def _of_codes(
    counts: np.ndarray, of_pair: np.ndarray, support: np.ndarray, label: np.ndarray | None, error: float
) -> Loss:
    """The loss of a y's own codes that each of its z sent to ``RATE`` units on average, and what all others weigh."""
    codes = counts.shape[2]
    each, each_rest = error / (4 * counts[0].size), error / (2 * of_pair[0].size)
    low, high = ends(counts, of_pair[:, :, None, :], each)
    mean = counts.mean(axis=0)
    epsilon = delta = estimate = 0.0
    for y, values in enumerate(support):
        if values.sum() < 2:
            continue
        often = ((label is None) | (label == y)) & (mean[y][:, values] >= RATE).all(axis=1)
        # Which codes are left out was chosen by the counts: of their sum the error is shared by all 2^codes sets.
        rest = counts[:, y][:, ~often][:, :, values].sum(axis=1)
        singly = high[y][~often][:, values].sum(axis=0)
        together = upper_end(rest, of_pair[:, y, values], error=each_rest * 2.0**-codes)
        if not often.all():
            delta = max(delta, float(np.minimum(singly, together).max()))
        share = (rest / np.maximum(of_pair[:, y, values], 1)).mean(axis=0)
        estimate = max(estimate, float(share.max(initial=0.0)))
        if often.any():
            ratio = np.log(high[y][often][:, values].max(axis=1) / low[y][often][:, values].min(axis=1))
            epsilon = max(epsilon, float(ratio.max()))
    return Loss(epsilon, delta, estimate)
