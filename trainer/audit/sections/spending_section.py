"""What one release costs: as claimed, as the shipped integers say, as enumerated, and at least, by running it.

Unlike an attack's figure this is a guarantee, whatever the attacker knows: it needs no data.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from edgeveil.edge_runtime.errors import BundleRefused
from edgeveil.edge_runtime.manifest import outlets
from edgeveil.edge_runtime.manifest.spending import MICRO, check_covered, epsilon_of, repeats
from edgeveil.edge_runtime.stages.rappor import epsilon_of_one, instantaneous
from edgeveil.trainer.audit.findings import Finding
from edgeveil.trainer.audit.sections import About, Section
from edgeveil.trainer.audit.subject import KERAS, Perturb, running
from edgeveil.trainer.datasets.base import Dataset
from edgeveil.trainer.measures import exact_law
from edgeveil.trainer.measures.black_box import most_proved

CONDITIONS = (
    "for readings clipped to {bounds}, a generator of the operating system that is sound, and an attacker who does not "
    "see inside the board"
)
BOUNDS = {"public": "the public bounds", "from-training": "bounds that are extremes of training rows, and ship"}
ON_BOARD = "checked by the runtime in the shipped integers"
HERE = "computed from the shipped integers; the bundle does not claim it, so no runtime checks it"

KIND = {"kind": "spending"}
ASKED = "channel"


def section(
    manifest: Mapping[str, Any], tables: Mapping[str, np.ndarray], *, of: str, from_training: bool
) -> list[Finding]:
    """What is promised of one release about anything, ``of`` z too; none where something leaves that is not covered, or
    where nothing is promised.

    ``tables`` are the manifest's arrays, ``from_training``: the recipe takes its bounds from training rows.
    """
    claim = manifest.get("spending")
    stages, outputs = manifest["stages"], outlets.values(manifest)
    try:
        check_covered(stages, outputs)
    except BundleRefused:
        return []
    cost = epsilon_of(stages, outputs, tables)
    if not cost or not cost.is_finite():
        return []
    bounds = "from-training" if from_training else "public"
    recomputed = float(cost)
    alpha = recomputed if claim is None else claim["micro_epsilon"] / MICRO
    law = exact_law.largest_ratio(stages, outputs, tables)
    beyond = "".join(f"; its {outlet.name} are beyond that" for outlet, _ in outlets.unattacked(manifest))
    law_of_one = instantaneous(stages)  # of one answer, for an observer who sees no other
    once = None if law_of_one is None else epsilon_of_one(law_of_one)
    text = sentence(alpha, claim, bounds, once=once, held=repeats(stages, outputs))[:-1] + beyond + "."
    more = {**KIND, "claimed": claim is not None, "bounds": bounds}
    integers = "epsilon of the shipped integers"
    counted: dict[str, Any] = {"figure": "epsilon", "value": law.epsilon, "rows": law.draws}
    if law.not_run:
        counted = {"not_run": law.not_run}
    return [
        Finding(of, "local mechanism", "epsilon", alpha, bound=True, text=text, more=more),
        Finding(ASKED, f"{integers}, computed", "epsilon", recomputed, more=KIND),
        Finding(ASKED, f"{integers}, by every draw", more=KIND, **counted),
    ]


def sentence(
    alpha: float, claim: Mapping[str, Any] | None, bounds: str, *, once: float | None = None, held: bool = False
) -> str:
    """The guarantee in words, with its conditions. ``held``: an answer is kept and charged once; ``once``: what one
    instantaneous answer of it tells."""
    what, of = ("answers", "its readings") if held else ("releases", "its reading")
    stops = f"{what} add up, and nothing counts them"
    if claim is not None:
        most = f"{claim['most_micro_epsilon'] / MICRO:g}"
        again = "" if claim["period_s"] is None else f" in {claim['period_s']:g} s that the board is on"
        whose = "" if claim["unit"] == "release" else f"of one {claim['unit']} "
        stops = f"{what} {whose}add up, and the ledger stops them at {most}{again}"
    hold_clause = ", however often it is released while its track or period lasts" if held else ""
    alone = "" if once is None else f", and one release alone by e^{once:.4g}"
    return (
        f"One {what[:-1]} of this bundle changes the odds of anything about {of} by a factor of at most "
        f"e^{alpha:g}{hold_clause}{alone} "
        f"(alpha-local differential privacy, alpha = {alpha:g}, {HERE if claim is None else ON_BOARD}), "
        f"{CONDITIONS.format(bounds=BOUNDS[bounds])}; {stops}."
    )


# What one release spends at the least, by running the artefact itself on neighbours: a bound from below.
#
# The promise is about any two readings. So the ends of the range, half of it, its middle and readings of several
# classes are run many times each, and the pair that tells most is judged on runs that did not choose it. A bound above
# the claim would prove the claim wrong; one below proves nothing.

RUNS = 9_000  # of each reading; a third to learn a score from, a third to choose by, a third to judge
CONFIDENCE = 0.999  # one audit in a thousand may find too much by chance
MOST_CLASSES = 4  # readings of the data set


def at_least(
    perturb: Perturb, dataset: Dataset, promised: float, *, runs: int = RUNS, confidence: float = CONFIDENCE
) -> Finding:
    """Epsilon that runs show to be spent, next to what is ``promised``, and the neighbours that prove it."""
    outputs = {name: _flat(perturb(np.repeat(x[None], runs, axis=0))) for name, x in _readings(dataset)}
    proof, name = most_proved(outputs, confidence=confidence), "epsilon that runs prove"
    if proof is None:
        return Finding(ASKED, name, not_run="there are no two readings to run", more=KIND)
    spent = proof.spent
    holds = spent.epsilon <= promised
    text = f"At least this is spent, with {confidence:.1%} confidence: {proof.neighbours}."
    text += "" if holds else " That is more than the integers promise: do not ship this, and report it."
    more = {**KIND, "holds": holds, "confidence": confidence}
    return Finding(ASKED, name, "epsilon", spent.epsilon, rows=spent.runs, text=text, more=more)


def _readings(dataset: Dataset) -> Iterator[tuple[str, np.ndarray]]:
    """Samples by what they are called."""
    spec = dataset.input
    if spec.low is not None:
        low, high = (np.broadcast_to(np.asarray(end, np.float64), spec.shape) for end in (spec.low, spec.high))
        half = np.arange(low.size).reshape(spec.shape) < low.size // 2
        for name, x in (
            ("every value at its low end", low),
            ("every value at its high end", high),
            ("every value in its middle", (low + high) / 2),
            ("half of the values at their high ends", np.where(half, high, low)),
        ):
            yield name, x.astype(spec.dtype)
    test = dataset.part("test")
    for y in np.unique(test.y)[:MOST_CLASSES]:
        yield f"a reading of {dataset.y_names[y]}", test.x[test.y == y][0]


def _flat(outputs: Mapping[str, np.ndarray]) -> np.ndarray:
    """All outputs of each run next to each other, float64 (n, values)."""
    return np.hstack([value.reshape(len(value), -1).astype(np.float64) for value in outputs.values()])


class Spending(Section):
    """What one release costs by a local mechanism; nothing where none is promised."""

    name = "spending"
    order = 2

    def measure(self, about: About, _found: Sequence[Finding]) -> list[Finding]:
        """As ``section``; and what runs show, where rows are released one by one on this machine."""
        subject, on_board = about.subject, about.there
        fitted = about.run.perturber() if subject.artefact == KERAS else None
        manifest = subject.manifest if fitted is None else fitted.description()
        tables = subject.tables() if fitted is None else dict(fitted.tables)
        from_training = about.run.recipe.data.bounds is not None
        findings = section(manifest, tables, of=about.sensitive, from_training=from_training)
        if not findings or on_board is not None or manifest.get("stream") is not None:
            return findings
        with running(subject, about.run) as perturb:
            return [*findings, at_least(perturb, about.dataset, findings[1].value or 0.0)]
