"""Tracks people between frames: the nearest crop continues a track; a track ends when its person has gone."""

from typing import Any, Dict, List, Optional, Tuple


class Tracker(object):
    """Tracks of people between frames, each with one of ``slots`` slots while it lasts.

    A person continues the nearest track, at most ``step_px`` away for each frame since. A track ends when no one was
    near it for more than ``gone_frames`` frames; ``ended`` lists those that ended since it was last emptied.
    Numbers start at 1 and are never reused. A person who comes when all slots are taken has no track.
    """

    def __init__(self, *, slots: int, step_px: float, gone_frames: int) -> None:
        self._slots, self._step, self._gone = slots, step_px, gone_frames
        self._tracks: Dict[int, List[Any]] = {}  # number: [row, column, frames without, slot]
        self._next = 1
        self.ended: List[int] = []

    def update(self, centres: List[Tuple[float, float]]) -> List[Optional[Tuple[int, int]]]:
        """For each centre of this frame, in order, its (track, slot), or None without a free slot."""
        result: List[Optional[Tuple[int, int]]] = [None] * len(centres)
        pairs = []
        for number, (row, column, missed, _) in self._tracks.items():
            for place, (r, c) in enumerate(centres):
                away = ((r - row) ** 2 + (c - column) ** 2) ** 0.5
                if away <= self._step * (missed + 1):
                    pairs.append((away, number, place))
        taken = set()
        for _, number, place in sorted(pairs):
            if number in taken or result[place] is not None:
                continue
            taken.add(number)
            slot = self._tracks[number][3]
            self._tracks[number] = [*centres[place], 0, slot]
            result[place] = (number, slot)
        for number in [number for number in self._tracks if number not in taken]:
            self._tracks[number][2] += 1
            if self._tracks[number][2] > self._gone:
                self._end(number)
        for place, centre in enumerate(centres):
            if result[place] is None:
                result[place] = self._begin(centre)
        return result

    def end_all(self) -> None:
        """End all tracks, after the stream was interrupted."""
        for number in list(self._tracks):
            self._end(number)

    def _begin(self, centre: Tuple[float, float]) -> Optional[Tuple[int, int]]:
        used = {track[3] for track in self._tracks.values()}
        free = [slot for slot in range(self._slots) if slot not in used]
        if not free:
            return None
        number, self._next = self._next, self._next + 1
        self._tracks[number] = [centre[0], centre[1], 0, free[0]]
        return number, free[0]

    def _end(self, number: int) -> None:
        del self._tracks[number]
        self.ended.append(number)
