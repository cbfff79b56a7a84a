"""Attribute inference by counting: where outputs take few values, count z for each of them.

Where the output is a code (a label, a code, or a picture that stands for one), nothing does better than the best guess
from P(z | y, code), so counting is as strong as any network and takes no time. Codes with few rows are shrunk towards
P(z|y). Where a channel is drawn afresh for every release, counting released codes converges to the Bayes attacker who
knows the channel: both see c' alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import cast

import numpy as np

from edgeveil.trainer.attacks.problem import MOST_VALUES, Codes, Problem, Released, keys
from edgeveil.trainer.attacks.protocol import Adaptive, Learned
from edgeveil.trainer.measures.certificate import released_counts
from edgeveil.trainer.measures.enough import ROWS_OF_A_VALUE
from edgeveil.trainer.measures.intervals import count

WEIGHT = 4.0  # rows that P(z|y) counts for, where it is not chosen
SHRINKAGE = (0.5, 2.0, 8.0, 32.0)  # rows that P(z|y) counts for; the best by cross-entropy on held-out rows is taken


class CodeCounts(Adaptive):
    """Counting: each code's share of every z, the strongest attack there is on a code alone."""

    name = "code counts"
    order = 6
    counts = True

    def why_not(self, problem: Problem) -> str | None:
        """Outputs that do not repeat are not codes."""
        different, rows = len(set(values(problem.fit, few=problem.few_values))), len(problem.fit)
        if different <= MOST_VALUES and rows >= ROWS_OF_A_VALUE * different:
            return None
        what = "frames" if problem.fit.also is None else "codes"
        return f"{different:,} different {what} in {rows:,} rows are no codes to count"

    def fit(self, problem: Problem, _seed: int) -> Learned:
        """Count z by y and code on the training rows."""
        fit = problem.fit
        places = {value: place for place, value in enumerate(sorted(set(values(fit, few=problem.few_values))))}
        counts = np.zeros((*problem.counted.shape[:1], len(places) + 1, problem.z_classes))

        def code(part: Released) -> np.ndarray:  # the last: not in training
            return np.array([places.get(value, len(places)) for value in values(part, few=problem.few_values)])

        np.add.at(counts, (fit.y, code(fit), fit.z), 1.0)
        return _counted(problem, counts, code)


class BayesKnowingChannel(Adaptive):
    """Bayes' rule with the true channel: codes before it are counted on own samples, Q does the rest.

    The attacker has the perturber, so knows Q and the code that goes into it for their own samples; nothing has to be
    learned about the noise. Its accuracy is the certificate's plug-in value.
    """

    name = "Bayes knowing the channel"
    order = 7
    counts = True

    def why_not(self, problem: Problem) -> str | None:
        """It needs a channel, and the codes that went into it."""
        codes = problem.fit.codes
        if codes is None or codes.channel is None:
            return "there is no channel"
        if codes.sent is None:
            return "the codes before the channel were not given"
        return None

    def fit(self, problem: Problem, _seed: int) -> Learned:
        """Count n(y, c, z) on the training rows and send the counts through Q."""
        codes = cast(Codes, problem.fit.codes)  # why_not checked
        channel, sent = cast(np.ndarray, codes.channel), cast(np.ndarray, codes.sent)
        counts = through_channel(problem.fit, sent, channel, problem.theta.shape)
        return _counted(problem, counts, lambda part: cast(Codes, part.codes).received)


def through_channel(part: Released, sent: np.ndarray, channel: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    """n(y, c', z) expected behind ``channel`` (R, C) for the codes ``sent`` (n,) of ``part``; ``shape`` is (Y, Z)."""
    q = channel / channel.sum(axis=1, keepdims=True)
    return released_counts(count(part.y, sent, part.z, shape=(shape[0], len(q), shape[1])), q)


def shrunk(counts: np.ndarray, prior: np.ndarray, weight: float) -> np.ndarray:
    """P(z | y, code) of ``counts`` (Y, C, Z) with ``weight`` rows of ``prior`` (Y, Z) added to each code."""
    more = counts + weight * prior[:, None, :]
    return more / more.sum(axis=2, keepdims=True)


def _counted(problem: Problem, counts: np.ndarray, code: Callable[[Released], np.ndarray]) -> Learned:
    """The attack by ``counts`` (Y, C, Z), with the shrinkage that does best on the stopping rows; ``code`` numbers that
    of each row."""
    stop = problem.stop
    tables = [shrunk(counts, problem.counted, weight) for weight in SHRINKAGE]
    stopping = stop.y, code(stop), stop.z
    best = min(tables, key=lambda table: -np.log(table[stopping]).sum())
    return Learned(lambda part: best[part.y, code(part)], len(problem.fit))


def values(part: Released, *, few: bool) -> list[bytes]:
    """What may be codes, of each row: those there are; else all that left, where that takes ``few`` values; else the
    labels, where there are any, or the frames."""
    if part.codes is not None:
        return keys(replace(part, x=part.codes.received[:, None]))
    alone = part.also is not None and not few
    return keys(replace(part, x=np.zeros((len(part), 0))) if alone else part)
