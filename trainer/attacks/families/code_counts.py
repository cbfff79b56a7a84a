"""Attribute inference by counting: where outputs take few values, count z for each of them.

Where a code leaves (as a label, a code, or a picture that stands for one), nothing can do better than the best guess
from P(z | y, code), so counting it is as strong as any network and takes no time. Codes with few rows lean on P(z|y).
For a channel that is drawn afresh for every release, counting on released codes converges to the Bayes attacker who
knows the channel: c' is all that either of them sees.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar, cast

import numpy as np

from edgeveil.trainer.attacks.problem import FEWEST_ROWS_PER_VALUE, MOST_VALUES, Codes, Problem, Released, keys
from edgeveil.trainer.attacks.protocol import Kind

SHRINKAGE = (0.5, 2.0, 8.0, 32.0)  # rows that P(z|y) counts for; the best by cross-entropy on held-out rows is taken


class CodeCounts:
    """Counting: each code's share of every z, the strongest attack there is on a code alone."""

    name = "code counts"
    kind: Kind = "adaptive"
    seeded = False

    def why_not(self, problem: Problem) -> str | None:
        """Readings that do not repeat are no codes."""
        count = len(set(_values(problem.fit)))
        if count > MOST_VALUES or len(problem.fit) < FEWEST_ROWS_PER_VALUE * count:
            what = "frames" if problem.fit.also is None else "codes"
            return f"{count:,} different {what} in {len(problem.fit):,} rows are no codes to count"
        return None

    def fit(self, problem: Problem, seed: int) -> CodeAttack:
        """Count z by y and code on the training rows."""
        del seed
        fit, stop = problem.fit, problem.stop
        places = {value: place for place, value in enumerate(sorted(set(_values(fit))))}
        counts = np.zeros((*problem.counted.shape[:1], len(places) + 1, problem.z_classes))
        code = np.array([places[value] for value in _values(fit)])
        np.add.at(counts, (fit.y, code, fit.z), 1.0)
        attacks = [CodeAttack(places, shrunk(counts, problem.counted, weight), len(fit)) for weight in SHRINKAGE]
        return _best(attacks, stop)


@dataclass(frozen=True)
class CodeAttack:
    """``table`` (classes of y, codes + 1, classes of z) is P(z | y, code); the last code is whatever was never seen."""

    places: dict[bytes, int]
    table: np.ndarray
    train_samples: int

    def probabilities(self, part: Released) -> np.ndarray:
        """The counted shares of each row's code."""
        last = self.table.shape[1] - 1
        return self.table[part.y, [self.places.get(value, last) for value in _values(part)]]


class BayesKnowingChannel:
    """Bayes' rule with the true channel: codes before it are counted on own samples, Q does the rest.

    The attacker has the perturber, so knows Q and which code goes into it for samples of their own; nothing has to be
    learned about the noise. What it gets right is what the certificate counts as its plug-in value.
    """

    name = "Bayes knowing the channel"
    kind: Kind = "adaptive"
    seeded = False

    def why_not(self, problem: Problem) -> str | None:
        """It needs a channel, and the codes that went into it."""
        codes = problem.fit.codes
        if codes is None or codes.channel is None:
            return "nothing is sent through a channel"
        if codes.sent is None:
            return "the codes before the channel were not given"
        return None

    def fit(self, problem: Problem, seed: int) -> ChannelAttack:
        """Count n(y, c, z) on the training rows and send the counts through Q."""
        del seed
        from edgeveil.trainer.measures.certificate import count, released_counts

        fit, stop = problem.fit, problem.stop
        codes = cast(Codes, fit.codes)  # why_not looked
        channel, sent = cast(np.ndarray, codes.channel), cast(np.ndarray, codes.sent)
        q = channel / channel.sum(axis=1, keepdims=True)
        counts = released_counts(
            count(fit.y, sent, fit.z, shape=(problem.theta.shape[0], len(q), problem.z_classes)), q
        )
        attacks = [ChannelAttack(shrunk(counts, problem.counted, weight), len(fit)) for weight in SHRINKAGE]
        return _best(attacks, stop)


@dataclass(frozen=True)
class ChannelAttack:
    """``table`` (classes of y, codes, classes of z) is P(z | y, c')."""

    table: np.ndarray
    train_samples: int

    def probabilities(self, part: Released) -> np.ndarray:
        """P(z | y, c') of each row."""
        return self.table[part.y, cast(Codes, part.codes).received]


def shrunk(counts: np.ndarray, prior: np.ndarray, weight: float) -> np.ndarray:
    """P(z | y, code) of ``counts`` (Y, C, Z) with ``weight`` rows of ``prior`` (Y, Z) added to each code."""
    more = counts + weight * prior[:, None, :]
    return more / more.sum(axis=2, keepdims=True)


A = TypeVar("A", CodeAttack, ChannelAttack)


def _best(attacks: Sequence[A], stop: Released) -> A:
    rows = np.arange(len(stop))
    return min(attacks, key=lambda one: -np.log(one.probabilities(stop)[rows, stop.z]).sum())


def _values(part: Released) -> list[bytes]:
    """What may be codes: labels and codes that leave, else the frames themselves."""
    return keys(part if part.also is None else replace(part, x=np.zeros((len(part), 0))))
