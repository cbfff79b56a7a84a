"""A noisy channel: each index becomes another one with the probabilities of a row of a table.

k-ary randomised response ("k-rr") is such a channel of exact integers (Kairouz, Bonawitz and Ramage, ICML 2016). A
category stays with probability e^alpha / (e^alpha + k - 1), and each other one comes in its place with probability
1 / (e^alpha + k - 1). In the shipped integers the odds of no two categories differ by more than e^alpha.
"""

import math
from decimal import Decimal
from fractions import Fraction
from typing import Any, Dict, Mapping, Sequence, Tuple

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.late_imports import np
from edgeveil.edge_runtime.stages import random_draws
from edgeveil.edge_runtime.stages.base import INDEX, Entry, Run, Value, codes_of, from_input
from edgeveil.edge_runtime.stages.mechanism import REPORT, Design, Mechanism, Worth, log
from edgeveil.edge_runtime.util.validate import identifier, refuse

TOTAL = 2**32  # of a row: the most that a channel's table may have
MOST = 4096  # categories; their table has 64 MiB


def channel_of(categories: int, alpha: float) -> np.ndarray:
    """The table uint32 (k, k) of a channel, rows that sum to 2^32.

    What is off the diagonal is rounded up, so that the ratio is never above e^alpha. Raises ``BadInput`` for fewer than
    2 or more than 4096 categories.
    """
    if not 2 <= categories <= MOST:
        raise BadInput(
            "Randomised response takes 2 to {} categories, and here {} can be sent. Report something "
            "else, or merge categories.".format(MOST, categories)
        )
    # exp is off by less than one place of 53: a touch more than asked for off the diagonal costs no privacy.
    odds = Fraction(float(np.nextafter(math.exp(alpha), 0.0)))
    off = math.ceil(TOTAL / (odds + categories - 1))
    table = np.full((categories, categories), off, np.uint32)
    np.fill_diagonal(table, TOTAL - (categories - 1) * off)
    return table


def same_of(table: np.ndarray) -> float:
    """How often the answer of a channel (k, k) says nothing of any two categories: 0 where it is no ``channel_of``."""
    k, own, off = len(table), int(table[0, 0]), int(table[0, -1])
    plain = table.shape == (k, k) and own >= off and bool((table == np.where(np.eye(k, dtype=bool), own, off)).all())
    return (k - 2) * off / float(own + (k - 1) * off) if plain else 0.0


def worth_of_channel(counts: np.ndarray) -> Worth:
    """Of a channel uint32 (k, R): rows whose mean is the category's own unit vector under the channel.

    Raises ``numpy.linalg.LinAlgError`` where two categories cannot be told apart.
    """
    law = counts / counts.sum(axis=1, keepdims=True, dtype=np.float64)
    if np.linalg.matrix_rank(law) < len(law):
        raise np.linalg.LinAlgError
    return Worth(np.linalg.inv(law) if law.shape[0] == law.shape[1] else np.linalg.pinv(law))


class Response(Mechanism):
    """An index drawn by the row of another one."""

    name = "draw channel"
    chooses = "distribution"
    reads = {"input": "index"}
    fields = {"table": identifier()}
    writes = ("output",)
    mechanism = "k-rr"
    of = "share"
    automatic = True
    dtype = "int64"

    def make(self, stage: Entry, at: str, flow: Any, *taken: Value) -> Value:
        """As ``Kind``."""
        table = flow.table(stage["table"], at + ".table", "uint32")
        if len(table["shape"]) != 2:
            refuse("wrong-value", at + ".table", "expected two dimensions, got {}".format(len(table["shape"])))
        return INDEX

    def compile(self, stage: Any, context: Any) -> Run:
        """As ``Kind``."""
        channel, checked = random_draws.Channel(context.table(stage.table)), codes_of(context)
        return from_input(stage, lambda codes: channel.draw(checked(codes, channel.rows)))

    def measure(self, stage: Any, manifest: Any, artefact: str, shapes: Dict[str, Any], counts: Dict[str, int]) -> None:
        """As ``Kind``."""
        counts[stage.output] = manifest.tables[stage.table].shape[1]

    def recorded(self, stage: Entry, n: int, rng: Any, tables: Any) -> np.ndarray:
        """Seeded values (n,) by a numpy generator, for golden draws and training."""
        return rng.integers(0, tables[stage["table"]].shape[1], n)

    def epsilon(self, stage: Entry, noise: Sequence[Entry], table: Any) -> Decimal:
        """As ``Mechanism``: the largest log-ratio of two entries of one column; infinite for a 0 and a number."""
        ratios = {(int(max(column)), int(min(column))) for column in zip(*table)}
        if any(above and not below for above, below in ratios):
            return Decimal("Infinity")
        # A column of zeros never leaves.
        return log(max((Fraction(above, below) for above, below in ratios if above), default=Fraction(1)))

    def design(self, input_: str, size: int, alpha: float, **asked: Any) -> Design:
        """As ``Mechanism``."""
        channel = {"stage": "draw", "distribution": "channel", "input": input_, "table": "response", "output": REPORT}
        return Design("k-rr", (channel,), (), "int64", tables={"response": channel_of(size, alpha)})

    def variance(self, size: int, alpha: float) -> float:
        """As ``Mechanism`` (Wang et al., USENIX Security 2017)."""
        return (math.exp(alpha) + size - 2) / (math.exp(alpha) - 1) ** 2

    def estimate(
        self, stage: Entry, stages: Sequence[Entry], size: int, alpha: float, tables: Any
    ) -> Tuple[int, float]:
        """As ``Mechanism``."""
        k = tables[stage["table"]].shape[1]
        return k, self.variance(k, alpha)

    def worth(self, stage: Entry, made: Mapping[str, Entry], table: Any) -> Worth:
        """As ``Mechanism``."""
        return worth_of_channel(table)
