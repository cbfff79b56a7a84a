"""The promise of a manifest: what one release tells at most about anything, checked in the integers that ship.

An output is *covered* where it is made of reports, constants and fresh noise alone. What is sent is then differentially
private, whatever the receiver knows: a stage that turns an uncovered value into a covered one *charges* its epsilon,
which its kind computes, and all that comes after costs nothing. Reports that leave together add up. What
a stream keeps is charged when it is drawn: to release it again, or to answer of it anew, costs nothing.
"""

import array
import struct
import sys
from decimal import Decimal
from typing import Any, List, Mapping, Sequence, Set

from edgeveil.edge_runtime.manifest import outlets
from edgeveil.edge_runtime.manifest.manifest import Manifest
from edgeveil.edge_runtime.stages import kind_of, reads_and_writes
from edgeveil.edge_runtime.util.validate import refuse

MICRO = 10**6  # steps of epsilon in 1

Stage = Mapping[str, Any]


def check_covered(stages: Sequence[Stage], outputs: Sequence[Stage]) -> None:
    """Raise ``BundleRefused`` where an output of a manifest whose flow is checked tells more than its reports do."""
    covered = covered_values(stages)
    for number, output in enumerate(outputs):
        if output["tensor"] not in covered:
            problem = "'{}' is not made of reports alone, and a promise is made for all that leaves"
            refuse("uncovered", "outputs[{}].tensor".format(number), problem.format(output["tensor"]))


def covered_values(stages: Sequence[Stage]) -> Set[str]:
    """The names of the covered values."""
    covered: Set[str] = set()
    voted = _voted(stages)
    used: Set[str] = set()
    steps = {stage["output"] for stage in stages if getattr(kind_of(stage), "value", "") == "steps"}
    for number, stage in enumerate(stages):
        reads, writes = reads_and_writes(stage)
        if used & steps.intersection(reads):
            refuse("reused-noise", "stages[{}].noise".format(number), "two stages add the same noise")
        used.update(reads)
        kind = kind_of(stage)
        if kind.repeats:
            reads = [name for name in reads if name != stage.get("by") or name not in voted]
        if kind.charges or all(name in covered for name in reads):
            covered.update(writes)
    return covered


def _voted(stages: Sequence[Stage]) -> Set[str]:
    """The classes of tracks: each changes once, after so many frames, whatever they show."""
    return {stage["output"] for stage in stages if getattr(kind_of(stage), "votes", False)}


def repeats(stages: Sequence[Stage], outputs: Sequence[Stage]) -> bool:
    """Whether all that is charged is kept for a track or period, so that it is charged once for all of its releases.

    It is kept by ``first``, or by ``keep`` for a class that was voted. With independent noise on top, an answer given
    again tells no more than what is kept (post-processing).
    """
    covered, voted = covered_values(stages), _voted(stages)
    needed, is_repeated = {output["tensor"] for output in outputs}, False
    for stage in reversed(stages):
        reads, writes = reads_and_writes(stage)
        if not needed.intersection(writes):
            continue
        kind = kind_of(stage)
        if kind.repeats and stage.get("by", "") in {"", *voted}:
            is_repeated = True
        elif kind.charges and stage["input"] not in covered:
            return False
        else:
            needed.update(reads)
    return is_repeated


def repeats_paid(manifest: Manifest) -> bool:
    """Whether the ledger is charged for each draw of a bundle's stream, and not for each release."""
    document = manifest.document
    return manifest.spending is not None and repeats(document["stages"], outlets.values(document))


def charged(stages: Sequence[Stage], outputs: Sequence[Stage]) -> List[Stage]:
    """The stages whose epsilon is spent by all that leaves, each once."""
    covered = covered_values(stages)
    needed = {output["tensor"] for output in outputs}
    charging = []
    for stage in reversed(stages):
        reads, writes = reads_and_writes(stage)
        if needed.intersection(writes):
            if kind_of(stage).charges and stage["input"] not in covered:
                charging.append(stage)
            else:
                needed.update(reads)
    return charging[::-1]


# What the releases of a manifest cost, computed from the integers that ship.
#
# No float rounds a promise: probabilities are ratios of those integers, and their logarithms have 50 digits. Only
# bundles that promise something load this module: decimals and fractions take a board some milliseconds to import.


def epsilon_of(stages: Sequence[Stage], outputs: Sequence[Stage], tables: Mapping[str, Any]) -> Decimal:
    """What one release of all outputs costs, as the integers of the manifest have it; infinite where it promises
    nothing. ``tables`` has the rows of the channels' tables (R, C), whole numbers, by name."""
    from edgeveil.edge_runtime.stages.mechanism import plus

    draws = {stage["output"]: stage for stage in stages if stage["stage"] == "draw"}
    total = Decimal(0)
    for stage in charged(stages, outputs):
        noise = stage.get("noise", [])
        drawn = [draws[name] for name in ([noise] if isinstance(noise, str) else noise)]
        total = plus(total, kind_of(stage).epsilon(stage, drawn, tables.get(stage.get("table", ""))))
    return total


def check_promise(manifest: Mapping[str, Any], members: Mapping[str, bytes]) -> None:
    """Raise ``BundleRefused`` where a promise admits less than its integers, in ``members`` too, tell."""
    claim = manifest["spending"]
    tables = {
        stage["table"]: _channel_table(manifest["tables"][stage["table"]], members, "tables." + stage["table"])
        for stage in charged(manifest["stages"], outlets.values(manifest))
        if "table" in stage
    }
    spent = epsilon_of(manifest["stages"], outlets.values(manifest), tables)
    if spent > Decimal(claim["micro_epsilon"]) / MICRO:
        problem = "one release costs {:.7g} epsilon, and the manifest admits {:.7g}"
        refuse("spending-mismatch", "spending.micro_epsilon", problem.format(spent, claim["micro_epsilon"] / MICRO))


def _channel_table(table: Mapping[str, Any], members: Mapping[str, bytes], at: str) -> List[Sequence[int]]:
    """The rows of a table of uint32 (R, C), read without numpy from the one spelling of ``.npy`` that numpy writes."""
    (rows, columns), content = table["shape"], members[table["file"]]
    values = array.array("I", content[len(content) - 4 * rows * columns :])
    if sys.byteorder == "big":
        values.byteswap()
    header = "{{'descr': '<u4', 'fortran_order': False, 'shape': ({}, {}), }}".format(rows, columns)
    begins = content[: len(content) - 4 * rows * columns]
    length = struct.pack("<H", max(0, len(begins) - 10))
    if begins[:10] != b"\x93NUMPY\x01\x00" + length or begins[10:].rstrip(b" \n") != header.encode("ascii"):
        refuse("wrong-value", at, "its file is no array of uint32 {}".format(table["shape"]))
    return [values[row * columns : (row + 1) * columns] for row in range(rows)]
