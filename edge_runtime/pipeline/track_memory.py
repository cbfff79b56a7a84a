"""The memory of a stream between frames, so that a hundred frames of a person reveal no more than one.

A *track* is one person or thing from entering to leaving. Its predicted class is the majority over its first frames and
then fixed; a value drawn for it is drawn once. Without tracking, one draw per class and clock period is kept instead.
In a *bout* a class keeps its value until so many frames of the track in a row, the gap, were of other classes.
A stream with ``draws`` has a value for each of the first frames of a track or period, so many, and then keeps the last.
Until a track has voted, its class is ``groups``, one more than the last class; its row of the next table gives the
output meanwhile. So the output does not depend on x during the vote either.

A failed run of the pipeline changes nothing here: a dropped frame has not voted.

Every kept value has a random name. The names of those that a frame is made of, joined, are the name of its draws: two
frames of one name repeat the same draws, which a ledger charges once.
"""

import collections
import copy
import os
import time
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from edgeveil.edge_runtime.manifest.manifest import Stream

MAX_TRACKS = 4096  # remembered at a time; the least recently seen track is forgotten, and would vote again

_Kept = NamedTuple("_Kept", [("value", np.ndarray), ("name", int), ("last", int)])
# One track or period: for every hold stage, by its output, the votes, what is kept for each class, or (None) all, and
# the frames that it had; the last of them that was of a class is in what is kept.
_TrackState = NamedTuple(
    "_TrackState",
    [("votes", Dict[str, List[int]]), ("kept", Dict[str, Dict[Optional[int], _Kept]]), ("frames", Dict[str, int])],
)


class TrackMemory(object):
    """The memory of a pipeline's hold stages; ``stream`` is that of the manifest.

    Call ``begin`` before the stages, ``commit`` after all of them succeeded. ``clock`` gives seconds for periods.
    ``drawn`` has the name of each row's draws since ``begin``: 0 where it repeats none.
    """

    def __init__(self, stream: Optional[Stream], *, clock: Any = time.monotonic, most: int = MAX_TRACKS) -> None:
        self._hold = "" if stream is None else stream.hold
        self._votes = stream.votes or 0 if stream else 0
        self._period_s = stream.period_s or 1 if stream else 1
        self._gap = stream.gap if stream else None
        self._draws = stream.draws or 1 if stream else 1
        self._clock, self._most = clock, most
        self._kept: "collections.OrderedDict[Any, _TrackState]" = collections.OrderedDict()
        self._open: Dict[Any, _TrackState] = {}
        self._keys: Optional[List[Any]] = None
        self.drawn: List[int] = []

    def begin(self, tracks: Optional[List[int]]) -> None:
        """Set the tracks of the next rows, in order. None: each row stands for a whole track of equal rows."""
        self._open = {}
        self._keys = tracks
        self.drawn = [0] * len(tracks or ())
        if tracks is not None and self._hold == "period":
            self._keys = [int(self._clock() // self._period_s)] * len(tracks)

    def commit(self) -> None:
        """Keep the changes of the stages since ``begin``."""
        for key in self._keys or ():
            if key in self._open:
                self._kept[key] = self._open[key]
                self._kept.move_to_end(key)
        # Only the last period can be needed again.
        most = 1 if self._hold == "period" else self._most
        while len(self._kept) > most:
            self._kept.popitem(last=False)
        self._open = {}

    def forget(self, track: int) -> None:
        """Forget an ended track: the next one of its number votes and draws again."""
        if self._hold in ("track", "bout"):
            self._kept.pop(track, None)

    def restart(self) -> None:
        """Forget all: what was kept is of no frame of the stream."""
        self._kept.clear()

    def majority(self, name: str, labels: np.ndarray, groups: int) -> np.ndarray:
        """Labels (n,) of 0 .. groups - 1 in, the majority of each frame's track out; ``groups`` until it has voted.

        A tie goes to the smallest label.
        """
        if self._keys is None:
            return labels
        votes, out = self._votes, np.empty(len(labels), np.int64)
        for place, key in enumerate(self._keys):
            counts = self._state(key).votes.setdefault(name, [0] * groups)
            if sum(counts) < votes:
                counts[labels[place]] += 1
            out[place] = counts.index(max(counts)) if sum(counts) >= votes else groups
        return out

    def keep(self, name: str, values: np.ndarray, by: np.ndarray) -> np.ndarray:
        """Values (n,) in; of each frame, the first value of its track, period or bout with the same ``by`` (n,) out."""
        return self._first_of(name, values, by.tolist())

    def first(self, name: str, values: np.ndarray) -> np.ndarray:
        """Values (n, ...) in; for each frame, the first value of its track or period, (n, ...) out.

        With ``draws``: its own, and after so many frames that of the last of them.
        """
        return self._first_of(name, values, [None] * len(values))

    def _first_of(self, name: str, values: np.ndarray, by: Sequence[Optional[int]]) -> np.ndarray:
        if self._keys is None:
            return values
        out = np.empty_like(values)
        for place, key in enumerate(self._keys):
            entries, frame = self._of_stage(self._state(key), name)
            if by[place] not in entries or frame <= self._draws:
                # A copy: what a frame was made of is overwritten after use.
                entries[by[place]] = _Kept(np.array(values[place]), int.from_bytes(os.urandom(8), "little"), frame)
            entries[by[place]] = entries[by[place]]._replace(last=frame)
            out[place], one, _ = entries[by[place]]
            self.drawn[place] ^= one
        return out

    def _of_stage(self, state: _TrackState, name: str) -> Tuple[Dict[Optional[int], _Kept], int]:
        """What the stage ``name`` keeps of a track, without the bouts that are over, and the number of this frame."""
        frame = state.frames[name] = state.frames.get(name, 0) + 1
        entries = state.kept.get(name, {})
        if self._gap is not None:
            entries = {by: one for by, one in entries.items() if frame - one.last <= self._gap}
        state.kept[name] = entries
        return entries, frame

    def _state(self, key: Any) -> _TrackState:
        if key not in self._open:
            self._open[key] = copy.deepcopy(self._kept[key]) if key in self._kept else _TrackState({}, {}, {})
        return self._open[key]
