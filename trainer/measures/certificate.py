"""The certificate of a codebook: how often, at most, is an adversary who knows y and c' right about z?

The output of a codebook is a function of its code c' and fresh noise, so by data processing no adversary who knows y,
and nothing else that depends on x, does better than the best guess of z from (y, c'). That guess is counted, not
trained: n(y, c', z) over held-out rows. The plug-in accuracy f = sum over (y, c') of max_z n / n is at least the truth
in expectation (a maximum of averages is at most the average of maxima), and it concentrates:

* f * n / b is *self-bounding* (leaving one independent unit out lowers it by at most 1, and all together by no more
  than itself; b is the number of rows of the largest unit), so with probability 1 - delta (Boucheron, Lugosi and
  Massart 2000) E f <= f + L + sqrt(L^2 + 2 L f) with L = ln(1/delta) b / n;
* *McDiarmid*: E f <= f + sqrt(ln(1/delta) sum_u (n_u / n)^2 / 2) over units of n_u rows.

The first is tighter for small f. The chance level decides which one is used, so the counts do not.

A configuration may be built from what earlier audits of the same rows showed (*looks*). Where each look answered one
yes or no, it is one of 2^looks that could have come of them, and each of these has its share of the error (``shared``).
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.measures.enough import RATE
from edgeveil.trainer.measures.intervals import CONFIDENCE, Interval, count, unit_numbers

SELF_BOUNDING_BELOW = 0.2  # of chance
WIDEST = 0.1  # between plug-in and bound; a wider bound says nothing useful
FIRST = 0.9  # of the error for the first configuration that looks at some rows; all later ones share the rest
MOST_LOOKS = 900  # 2^looks is a float

Slack = Literal["self-bounding", "McDiarmid"]


@dataclass(frozen=True)
class Certificate:
    """``bound`` holds with ``confidence``, for one sample and subjects drawn like those counted.

    ``plug_in`` is the counted accuracy of the best guess from (y, c'), ``null`` the mean of the same where z was
    shuffled within y (or within ``strata``): what counting noise alone shows. ``bits`` is the counted I(c'; z | y),
    ``null_bits`` its mean and ``null_bits_high`` its 95 % quantile under the shuffle. ``units`` independent units were
    counted; ``tried`` configurations, if fixed beforehand, share the confidence (Bonferroni), and so do those that
    ``looks`` before it may have led to. ``capacity`` is the multiplicative Bayes capacity of the channel within y-hat:
    with no prior over c does c' raise a chance of being right by a larger factor.
    """

    bound: float
    confidence: float
    slack: Slack
    plug_in: float
    null: float
    bits: float
    null_bits: float
    null_bits_high: float
    rows: int
    units: int
    tried: int
    capacity: float
    looks: int = 0

    @property
    def sufficient(self) -> bool:
        """Whether enough independent units were counted for the bound to say something."""
        return self.units >= RATE and self.bound - self.plug_in <= WIDEST

    @property
    def needed(self) -> int:
        """How many equally large units leave ``WIDEST`` between plug-in and bound."""
        return units_needed(self.plug_in, (1 - self.confidence) / shared(self.tried, self.looks), self.slack)

    def sentence(self, of: str = "subjects") -> str:
        """The claim with its assumptions, or that too few were counted for one; ``of`` names the independent units."""
        if not self.sufficient:
            return (
                f"Too few {of} for a certificate: {self.units:,} were counted, and at least {self.needed:,} are needed "
                f"for a bound within {100 * WIDEST:g} points of what is counted."
            )
        text = (
            "For one sample, an adversary who knows y and nothing else of x is right on average at most "
            f"{100 * self.bound:.1f} % of the time, with {100 * self.confidence:g} % confidence, for {of} drawn like "
            f"the {self.units:,} counted"
        )
        terms = chosen(self.tried, self.looks)
        return f"{text} ({terms})." if terms else f"{text}."


def shared(tried: int, looks: int = 0) -> float:
    """By how many the error of a bound is divided, for a configuration that ``looks`` others came before on these rows.

    The sum over looks of 2^looks / ``shared(1, looks)``, all that they may have led to, is 1: the best of all may be
    kept, too. ``tried`` were fixed beforehand. Raises ``BadInput`` after ``MOST_LOOKS``.
    """
    if looks > MOST_LOOKS:
        raise BadInput(
            f"These rows were audited more than {MOST_LOOKS} times: cut others, by another `seed` in the recipe."
        )
    return tried * (1 / FIRST if looks == 0 else 2.0**looks * looks * (looks + 1) / (1 - FIRST))


def chosen(tried: int, looks: int) -> str:
    """What shares the confidence, in words; empty for a configuration that is the first and only one."""
    terms = [f"{tried} configurations tried, if fixed beforehand"] if tried > 1 else []
    if looks:
        times = "another configuration was" if looks == 1 else f"{looks} other configurations were"
        terms.append(f"{times} audited on these rows before: it may have been built from one yes or no of each")
    return "; ".join(terms)


def units_needed(plug_in: float = 1.0, delta: float = 0.05, slack: Slack = "McDiarmid") -> int:
    """How many equally large units leave ``WIDEST`` between plug-in and bound, at least ``RATE``."""

    def enough(units: int) -> bool:
        return _added(plug_in, 1 / units, delta=delta, slack=slack) <= WIDEST

    return RATE + bisect.bisect_left(range(RATE, 10**9), True, key=enough)


def certify(
    y: np.ndarray,
    code: np.ndarray,
    z: np.ndarray,
    *,
    channel: np.ndarray,
    classes: tuple[int, int],
    chance: float,
    cluster: np.ndarray | None = None,
    strata: np.ndarray | None = None,
    confidence: float = 0.95,
    tried: int,
    looks: int = 0,
    shuffles: int = 200,
    hidden_label: bool = False,
    rng: np.random.Generator,
) -> Certificate:
    """Count and bound. Rows y, z, code (n,) are held out: nothing of the codebook was fitted or chosen on them.

    ``code`` is c before the channel, 0 .. R - 1, those of each y-hat together and equally many; ``channel`` (R, C) its
    shipped integers or probabilities. ``classes`` are the numbers of classes of y and z, ``chance`` is what the best
    guess from y alone is known to reach, ``cluster`` (n,) are the independent units, ``strata`` (n,) those rows within
    which z is exchangeable by design (default: y). ``tried`` and ``looks`` are those of ``Certificate``.
    ``hidden_label``: the channel mixes classes, so its capacity is over all codes and not within y-hat.
    Raises ``BadInput``.
    """
    if not len(y) or not len(y) == len(code) == len(z):
        raise BadInput(
            f"A certificate needs y, z and code of each row; got {len(y)}, {len(z)} and {len(code)} of them."
        )
    if not 0 < confidence < 1 or tried < 1:
        raise BadInput(f"Expected a confidence between 0 and 1 and tried >= 1; got {confidence} and {tried}.")
    q = channel / channel.sum(axis=1, keepdims=True)
    if len(q) % classes[0]:
        raise BadInput(f"A channel of {len(q)} codes does not have equally many for {classes[0]} classes of y.")
    counts = count(y, code, z, shape=(classes[0], len(q), classes[1]))
    released = released_counts(counts, q)
    f = bayes_accuracy(released)
    kind: Slack = "self-bounding" if chance < SELF_BOUNDING_BELOW else "McDiarmid"
    sizes = np.ones(len(y)) if cluster is None else np.unique(cluster, return_counts=True)[1]
    design = {"cluster": cluster, "strata": strata}
    null = null_distribution(y, code, z, q=q, classes=classes, shuffles=shuffles, rng=rng, **design)
    return Certificate(
        bound=min(1.0, upper(f, sizes, delta=(1 - confidence) / shared(tried, looks), slack=kind)),
        confidence=confidence,
        slack=kind,
        plug_in=f,
        null=float(null[:, 0].mean()),
        bits=information(released),
        null_bits=float(null[:, 1].mean()),
        null_bits_high=float(np.quantile(null[:, 1], 0.95)),
        rows=len(y),
        units=len(sizes),
        tried=tried,
        capacity=capacity(q, groups=1 if hidden_label else classes[0]),
        looks=looks,
    )


def released_counts(counts: np.ndarray, q: np.ndarray) -> np.ndarray:
    """n(y, c', z) expected behind the channel q (R, C): (Y, R, Z) to (Y, C, Z). Expected, not drawn: less noise."""
    return np.tensordot(counts, q, axes=(1, 0)).transpose(0, 2, 1)


def bayes_accuracy(counts: np.ndarray) -> float:
    """The share of rows that the best guess of z from (y, c') gets right, of counts (Y, C, Z)."""
    return float(counts.max(axis=2).sum() / counts.sum())


def information(counts: np.ndarray) -> float:
    """I(c'; z | y) in bits of the counts (Y, C, Z) taken as probabilities; never negative, biased upwards."""
    p = counts / counts.sum()
    p_y, p_yc, p_yz = p.sum(axis=(1, 2), keepdims=True), p.sum(axis=2, keepdims=True), p.sum(axis=1, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = p * np.log2(p * p_y / (p_yc * p_yz))
    return float(np.where(p > 0, terms, 0.0).sum())


def upper(f: float, sizes: np.ndarray, *, delta: float, slack: Slack) -> float:
    """Upper end for E f, except with probability ``delta``, from f over independent units of ``sizes`` rows each."""
    shares = np.asarray(sizes) / np.sum(sizes)
    share = (shares**2).sum() if slack == "McDiarmid" else shares.max()
    return f + _added(f, float(share), delta=delta, slack=slack)


def _added(f: float, share: float, *, delta: float, slack: Slack) -> float:
    """What a bound adds to f. ``share`` is 1 / units where these are equal.

    Else it is the sum of their squared shares of the rows (McDiarmid), or the largest share (self-bounding).
    """
    level = float(np.log(1 / delta)) * share
    if slack == "McDiarmid":
        return float(np.sqrt(level / 2))
    return level + float(np.sqrt(level**2 + 2 * level * f))


def capacity(q: np.ndarray, *, groups: int) -> float:
    """Multiplicative Bayes capacity sum_c' max_c Q(c'|c) within the worst of ``groups`` equal groups of the rows of q.

    A group is a class y-hat, which is released anyway: given y-hat, c' raises no chance of being right about anything
    by a larger factor, whatever the population (Alvim et al. 2012). 1 tells nothing, the number of codes everything.
    """
    return float(q.reshape(groups, -1, q.shape[1]).max(axis=1).sum(axis=1).max())


def null_distribution(
    y: np.ndarray,
    code: np.ndarray,
    z: np.ndarray,
    *,
    q: np.ndarray,
    classes: tuple[int, int],
    shuffles: int,
    rng: np.random.Generator,
    cluster: np.ndarray | None = None,
    strata: np.ndarray | None = None,
) -> np.ndarray:
    """Plug-in accuracy and bits (shuffles, 2) where z is shuffled within strata (``shuffled_labels``)."""
    shape = (classes[0], len(q), classes[1])
    null = np.empty((shuffles, 2))
    for i, shuffled in enumerate(
        shuffled_labels(z, y if strata is None else strata, shuffles=shuffles, rng=rng, cluster=cluster)
    ):
        counts = released_counts(count(y, code, shuffled, shape=shape), q)
        null[i] = bayes_accuracy(counts), information(counts)
    return null


def shuffled_labels(
    z: np.ndarray, strata: np.ndarray, *, shuffles: int, rng: np.random.Generator, cluster: np.ndarray | None
) -> Iterator[np.ndarray]:
    """z (n,) shuffled within ``strata`` (n,), ``shuffles`` times; by whole clusters where possible.

    Frames of a recording share y and z. Such clusters swap their z as a whole: rows shuffled one by one would give the
    null of independent rows, which is too small. Where a cluster has several y or z, its rows are shuffled.
    """
    unit = np.arange(len(z))
    if cluster is not None:
        numbered = unit_numbers(len(z), cluster)
        first = np.unique(numbered, return_index=True)[1]
        if (z[first][numbered] == z).all() and (strata[first][numbered] == strata).all():
            unit = numbered
    first = np.unique(unit, return_index=True)[1]
    of_unit, stratum = z[first], strata[first]
    order = np.argsort(stratum, kind="stable")
    pieces = np.split(order, np.flatnonzero(np.diff(stratum[order])) + 1)
    within = [(piece, of_unit[piece]) for piece in pieces]
    for _ in range(shuffles):
        shuffled = np.empty_like(of_unit)
        for piece, values in within:
            shuffled[piece] = rng.permutation(values)
        yield shuffled if len(first) == len(z) else shuffled[unit]


def shuffled_counts(
    kind: np.ndarray, z: np.ndarray, stratum: np.ndarray, *, shuffles: int, classes: int, rng: np.random.Generator
) -> np.ndarray:
    """How many rows of each ``kind`` (n,) have each z with z shuffled within strata: (shuffles, kinds, classes of z).

    ``stratum`` (kinds,) is that of all rows of a kind. Drawn by their law (multivariate hypergeometric), kind by kind.
    """
    counts = np.empty((shuffles, len(stratum), classes), np.int64)
    rows = np.bincount(kind, minlength=len(stratum))
    for one in np.unique(stratum):
        left = np.tile(np.bincount(z[stratum[kind] == one], minlength=classes), (shuffles, 1))
        for place in np.flatnonzero(stratum == one):
            wanted = np.full(shuffles, rows[place])
            for k in range(classes - 1):
                counts[:, place, k] = rng.hypergeometric(left[:, k], left[:, k + 1 :].sum(axis=1), wanted)
                wanted -= counts[:, place, k]
            counts[:, place, -1] = wanted
            left -= counts[:, place]
    return counts


# Bits about z that codes tell beyond y, over those of a null, with a bootstrap interval by unit.
#
# The counted I(c'; z | y) is biased upwards: noise looks like information. The mean over shuffles of z is that bias
# where nothing leaks, and is taken off. A bootstrap sample is noisier than the data, so its bits are biased once more.
# Only its spread about its own mean is used, or the bias would be counted twice (Efron and Tibshirani 1993, chapter
# 10).

RESAMPLES = 200


def over_null(
    y: np.ndarray,
    code: np.ndarray,
    z: np.ndarray,
    *,
    q: np.ndarray,
    classes: tuple[int, int],
    null_bits: float,
    rng: np.random.Generator,
    cluster: np.ndarray | None = None,
    resamples: int = RESAMPLES,
) -> Interval:
    """Bits beyond ``null_bits``, the mean of ``certificate.null_distribution``, of rows y, code, z (n,).

    ``q`` (codes, codes') is the channel behind the code, ``classes`` the numbers of classes of y and z. Units (rows, or
    ``cluster`` (n,)) are drawn with replacement ``resamples`` times. One unit says nothing: its ends are infinite.
    """
    shape = (classes[0], len(q), classes[1])
    cell = np.ravel_multi_index((y, code, z), shape)

    def bits(weights: np.ndarray | None) -> float:
        counts = np.bincount(cell, weights=weights, minlength=int(np.prod(shape))).reshape(shape)
        return information(released_counts(counts, q))

    estimate = bits(None) - null_bits
    unit = unit_numbers(len(y), cluster)
    units = int(unit.max()) + 1
    if units < 2:
        return Interval(estimate, float("-inf"), float("inf"))
    drawn = np.array([bits(rng.multinomial(units, np.full(units, 1 / units))[unit]) for _ in range(resamples)])
    beyond = drawn - drawn.mean()
    low, high = np.quantile(beyond, [(1 + CONFIDENCE) / 2, (1 - CONFIDENCE) / 2])
    return Interval(estimate, float(estimate - low), float(estimate - high))
