"""What a stream keeps from frame to frame, so that a hundred frames of somebody tell no more than one.

A *track* is one person or thing from entering to leaving. Its y-hat is the majority over its first frames and then
stays, whatever comes; what is drawn for it is drawn once. A camera that nothing follows people on keeps one draw for
each class and clock period instead. Until a track has voted it is of no class: number ``groups``, one more than there
are, whose row of the next table says what leaves meanwhile. So during the vote, too, nothing that leaves depends on x.

A run of the pipeline that fails leaves no trace here: a frame that was dropped has not voted.
"""

import collections
import copy
import time
from typing import Any, Dict, List, Optional

import numpy as np

MAX_TRACKS = 4096  # remembered at a time; the one that was seen longest ago is forgotten, and would vote anew


class _Kept(object):
    """Of one track or period: votes by class, and the first value of each class, for every hold stage by its output."""

    __slots__ = ("first", "votes")

    def __init__(self) -> None:
        self.votes: Dict[str, List[int]] = {}
        self.first: Dict[str, Dict[int, int]] = {}


class Holding(object):
    """The memory of a pipeline's hold stages; ``stream`` is that of the manifest.

    ``begin`` before the stages, ``commit`` where all went well. ``clock`` gives seconds; a period is counted on it,
    and the default cannot be set back.
    """

    def __init__(
        self, stream: Optional[Dict[str, Any]], *, clock: Any = time.monotonic, most: int = MAX_TRACKS
    ) -> None:
        self._stream = stream or {}
        self._clock, self._most = clock, most
        self._kept: "collections.OrderedDict[Any, _Kept]" = collections.OrderedDict()
        self._open: Dict[Any, _Kept] = {}
        self._keys: Optional[List[Any]] = None

    def begin(self, tracks: Optional[List[int]]) -> None:
        """The next rows are frames of these tracks, in order. None: each stands for a whole track that is like it."""
        self._open = {}
        self._keys = tracks
        if tracks is not None and self._stream.get("hold") == "period":
            self._keys = [int(self._clock() // self._stream["period_s"])] * len(tracks)

    def commit(self) -> None:
        """Remember what the stages saw since ``begin``."""
        for key in self._keys or ():
            if key in self._open:
                self._kept[key] = self._open[key]
                self._kept.move_to_end(key)
        # Of periods only the last one can ever be asked for again.
        most = 1 if self._stream.get("hold") == "period" else self._most
        while len(self._kept) > most:
            self._kept.popitem(last=False)
        self._open = {}

    def forget(self, track: int) -> None:
        """This track has ended: whoever comes under its number votes and draws anew."""
        if self._stream.get("hold") == "track":
            self._kept.pop(track, None)

    def majority(self, name: str, labels: np.ndarray, groups: int) -> np.ndarray:
        """Labels (n,) within 0 .. groups - 1 in, each frame's held one out; ``groups`` while its track still votes.

        Of classes with equally many votes the first is taken.
        """
        if self._keys is None:
            return labels
        votes, out = self._stream["votes"], np.empty(len(labels), np.int64)
        for place, key in enumerate(self._keys):
            counts = self._of(key).votes.setdefault(name, [0] * groups)
            if sum(counts) < votes:
                counts[labels[place]] += 1
            out[place] = counts.index(max(counts)) if sum(counts) >= votes else groups
        return out

    def keep(self, name: str, values: np.ndarray, by: np.ndarray) -> np.ndarray:
        """Values (n,) in; out, for each frame, the first one that its track or period had with the same ``by`` (n,)."""
        if self._keys is None:
            return values
        out = np.empty(len(values), np.int64)
        for place, key in enumerate(self._keys):
            out[place] = self._of(key).first.setdefault(name, {}).setdefault(int(by[place]), int(values[place]))
        return out

    def _of(self, key: Any) -> _Kept:
        if key not in self._open:
            self._open[key] = copy.deepcopy(self._kept[key]) if key in self._kept else _Kept()
        return self._open[key]
