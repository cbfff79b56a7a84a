"""The dataflow of a pipeline: where all outputs depend on one code, a bottleneck, that code can be counted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from edgeveil.edge_runtime.manifest.manifest import Stage, parse_stage
from edgeveil.edge_runtime.pipeline.compiler import reads_and_writes

SENT, RELEASED = "sent", "released"  # names of the two further outputs that an audit reads; they never leave a board


@dataclass(frozen=True)
class Bottleneck:
    """All outputs are a function of ``released`` and fresh noise, and ``released`` of ``sent`` and noise.

    ``sent`` names the tensor of c, numbered so that those of each y-hat are together, ``released`` that of c'.
    ``table`` names the channel between them, None where c' = c. ``rows`` are the codes c there are, None where no
    table says so. ``hidden_label``: the channel mixes classes, so y-hat is not released. ``pictured``: frames are
    pictures of c' without any noise but the choice of one, so a receiver can look up which c' made a frame.
    """

    sent: str
    released: str
    table: str | None
    rows: int | None
    hidden_label: bool
    pictured: bool = False

    def further_outputs(self) -> list[dict[str, Any]]:
        """Manifest entries that make a pipeline hand out c and c' as well."""
        whole = {"kind": "code", "shape": [], "dtype": "int64"}
        return [{"name": SENT, "tensor": self.sent, **whole}, {"name": RELEASED, "tensor": self.released, **whole}]


def bottleneck(manifest: Mapping[str, Any], tables: Mapping[str, np.ndarray]) -> Bottleneck | str:
    """The code that all outputs of ``manifest`` (its ``stages`` and ``outputs``) pass, or, as text, why there is none.

    ``tables`` are its arrays by name.
    """
    if any(stage["stage"] == "mechanism" for stage in manifest["stages"]):
        return "what leaves is a report of a local mechanism, and what that promises stands under spending"
    walk = _Walk([parse_stage(entry) for entry in manifest["stages"]])
    roots = sorted({root for output in manifest["outputs"] for root in walk.roots(output["tensor"])})
    if "" in roots:
        return "more of a reading leaves than a code, so there is nothing to count"
    codes = [root for root in roots if walk.made_by[root].op == "argmax_within"]
    if len(codes) > 1 or (len(roots) > 1 and not codes):
        return "several codes leave side by side, and only one can be counted"
    root = codes[0] if codes else roots[0]
    others = set(roots) - {root}
    classes = walk.first_token(root) if codes else None
    if others and (classes is None or others != set(walk.roots(classes.group))):
        return "a class leaves that is not the one the code is of"
    table, released, by_code = walk.channel(root, manifest["outputs"])
    # A table by class may have a row more, for a track that has not voted yet; classes are counted in the data.
    rows = len(tables[by_code]) if codes and by_code is not None else walk.voted(root)
    mixes = table is not None and not (classes and _keeps_class(tables[table], classes.groups))
    if mixes and others:
        return "the channel leaves the class of y-hat, which leaves as well"
    frames = [output["tensor"] for output in manifest["outputs"] if output["kind"] == "frame"]
    pictured = all(walk.is_picture(frame, released) for frame in frames)
    return Bottleneck(root, released, table, rows, mixes, pictured)


class _Walk:
    def __init__(self, stages: Sequence[Stage]) -> None:
        self._stages = stages
        self.made_by = {name: stage for stage in stages for name in reads_and_writes(stage)[1]}

    def roots(self, name: str) -> set[str]:
        """The codes that ``name`` is a function of, noise aside; "" where it sees more of x than codes."""
        stage = self.made_by.get(name)
        if stage is None:
            return {""}
        reads = set().union(*(self.roots(read) for read in reads_and_writes(stage)[0]))
        # What is decided of a code's picture is a function of the code.
        return {name} if stage.stage == "table" and "" in reads else reads

    def first_token(self, code: str) -> Stage:
        """The stage that makes the first of a code's tokens, whose groups are the classes."""
        stage = self.made_by[code]
        while (of := self.made_by.get(stage.group)) is not None and of.op == "argmax_within":
            stage = of
        return stage

    def is_picture(self, name: str, code: str) -> bool:
        """Whether ``name`` is made of ``code`` alone: by tables, choices from them and functions, without noise."""
        if name == code:
            return True
        reads = reads_and_writes(self.made_by[name])[0] if name in self.made_by else []
        return bool(reads) and all(self.is_picture(read, code) for read in reads)

    def voted(self, root: str) -> int | None:
        """Of how many classes tracks vote for one by ``root``; None where they do not."""
        votes = [stage.groups for stage in self._stages if stage.op == "majority" and stage.input == root]
        return votes[0] if votes else None

    def channel(self, root: str, outputs: Sequence[Mapping[str, Any]]) -> tuple[str | None, str, str | None]:
        """The table of the one draw that all of the world sees ``root`` through, what it makes, and a table by c."""
        name = root
        while True:
            readers = [s for s in self._stages if name in reads_and_writes(s)[0] and s.by != name]
            leaves = [output for output in outputs if output["tensor"] == name]
            tables = [stage.table for stage in readers] + [output.get("decoder") for output in leaves]
            by_code = next((table for table in tables if table), None)
            if leaves or len(readers) != 1:
                return None, name, by_code
            if readers[0].stage == "draw":
                return by_code, readers[0].output, by_code
            if readers[0].stage != "hold":
                return None, name, by_code
            name = readers[0].output


def _keeps_class(channel: np.ndarray, groups: int) -> bool:
    """Whether every c' (a column) comes from the codes of one class alone, so that it tells y-hat anyway."""
    reached = (channel.reshape(groups, -1, channel.shape[1]) > 0).any(axis=1)
    return bool((reached.sum(axis=0) <= 1).all())
