"""The promise of a manifest: what one release tells at most about anything, checked in the integers that ship.

An output is *covered* where it is made of reports, constants and fresh noise alone. What leaves is then differentially
private, whatever the receiver knows: a stage that turns an uncovered value into a covered one *charges* its epsilon,
which the module ``epsilon`` computes, and all that comes after costs nothing. Reports that leave together add up. What
a stream keeps is charged when it is drawn: to release it again, or to answer of it anew, costs nothing.
"""

from typing import Any, List, Mapping, Sequence, Set

from edgeveil.edge_runtime.formats.validate import one_of, positive, record, refuse, whole
from edgeveil.edge_runtime.manifest.manifest import Manifest

UNITS = ("release", "track", "subject")
MICRO = 10**6  # steps of epsilon in 1

Stage = Mapping[str, Any]


def check_spending(spending: Any) -> None:
    """Raise ``BundleRefused`` unless this is a promise with its keys in their limits."""
    record(spending, "spending", ("micro_epsilon", "unit", "most_micro_epsilon", "period_s"))
    one = whole(spending["micro_epsilon"], "spending.micro_epsilon", 1)
    one_of(spending["unit"], "spending.unit", UNITS)
    whole(spending["most_micro_epsilon"], "spending.most_micro_epsilon", one)
    if spending["period_s"] is not None:
        positive(spending["period_s"], "spending.period_s")


def check_covered(stages: Sequence[Stage], outputs: Sequence[Stage]) -> None:
    """Raise ``BundleRefused`` where an output of a manifest whose flow is checked tells more than its reports do."""
    covered = covered_values(stages)
    for number, output in enumerate(outputs):
        if output["tensor"] not in covered:
            problem = "'{}' is not made of reports alone, and a promise is made for all that leaves"
            refuse("uncovered", "outputs[{}].tensor".format(number), problem.format(output["tensor"]))


def reads_and_writes(stage: Stage) -> Any:
    """The names of the values that a stage of a manifest reads, and of those that it makes."""
    if stage["stage"] == "artefact":
        return list(stage["inputs"].values()), list(stage["outputs"].values())
    noise = stage.get("noise", [])
    named = [stage[key] for key in ("input", "group", "by") if key in stage]
    return named + ([noise] if isinstance(noise, str) else list(noise)), [stage["output"]]


def _charges(stage: Stage) -> bool:
    """Whether what the stage makes is covered although its input is not."""
    return stage["stage"] in ("mechanism", "add") or stage.get("distribution") == "channel"


def covered_values(stages: Sequence[Stage]) -> Set[str]:
    """The names of the covered values."""
    covered: Set[str] = set()
    voted = _voted(stages)
    used: Set[str] = set()
    steps = {stage["output"] for stage in stages if stage.get("distribution") == "laplace"}
    for number, stage in enumerate(stages):
        reads, writes = reads_and_writes(stage)
        if used & steps.intersection(reads):
            refuse("reused-noise", "stages[{}].noise".format(number), "two stages add the same noise")
        used.update(reads)
        if stage["stage"] == "hold" and stage["op"] == "keep":
            reads = [name for name in reads if name != stage["by"] or name not in voted]
        if _charges(stage) or all(name in covered for name in reads):
            covered.update(writes)
    return covered


def _voted(stages: Sequence[Stage]) -> Set[str]:
    """The classes of tracks: each changes once, after so many frames, whatever they show."""
    return {stage["output"] for stage in stages if stage["stage"] == "hold" and stage["op"] == "majority"}


def repeats(stages: Sequence[Stage], outputs: Sequence[Stage]) -> bool:
    """Whether all that is charged is kept for a track or period, so that it is charged once for all of its releases.

    It is kept by ``first``, or by ``keep`` for a class that was voted. With independent noise on top, an answer given
    again tells no more than what is kept (post-processing).
    """
    covered, voted = covered_values(stages), _voted(stages)
    needed, found = {output["tensor"] for output in outputs}, False
    for stage in reversed(stages):
        reads, writes = reads_and_writes(stage)
        if not needed.intersection(writes):
            continue
        if stage["stage"] == "hold" and (stage["op"] == "first" or (stage["op"] == "keep" and stage["by"] in voted)):
            found = True
        elif _charges(stage) and stage["input"] not in covered:
            return False
        else:
            needed.update(reads)
    return found


def repeats_paid(manifest: Manifest) -> bool:
    """Whether the ledger is charged for each draw of a bundle's stream, and not for each release."""
    document = manifest.document
    return manifest.spending is not None and repeats(document["stages"], document["outputs"])


def charged(stages: Sequence[Stage], outputs: Sequence[Stage]) -> List[Stage]:
    """The stages whose epsilon is spent by all that leaves, each once."""
    covered = covered_values(stages)
    needed = {output["tensor"] for output in outputs}
    found = []
    for stage in reversed(stages):
        reads, writes = reads_and_writes(stage)
        if needed.intersection(writes):
            if _charges(stage) and stage["input"] not in covered:
                found.append(stage)
            else:
                needed.update(reads)
    return found[::-1]
