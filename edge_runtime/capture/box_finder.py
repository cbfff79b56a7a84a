"""Finds people in a camera's frame with the network of the bundle: its boxes become places in the frame."""

from typing import Any, List, Sequence, Tuple

import numpy as np

from edgeveil.edge_runtime.capture.resize import nearest
from edgeveil.edge_runtime.errors import FrameDropped
from edgeveil.edge_runtime.manifest.detector import DetectorRules

OVERLAP = 0.5  # boxes that share more of their union are one person
Place = Tuple[float, float]  # row, column


class BoxFinder(object):
    """Runs ``runner`` on frames of ``shape`` (rows, columns[, channels]), uint8; at most ``most`` people in each."""

    def __init__(self, rules: DetectorRules, runner: Any, shape: Sequence[int], *, most: int) -> None:
        self._rules, self._runner, self._most = rules, runner, most
        self._frame = shape[:2]
        rows, columns, self._channels = rules.size
        self._input = rules.entry["inputs"][0]["name"]
        self._resize = nearest(self._frame, (rows, columns))
        self._range = np.float32(rules.low), np.float32((rules.high - rules.low) / 255.0)
        # From units of a box to pixels of the frame.
        unit = (1.0, 1.0) if rules.unit == "share" else (1.0 / rows, 1.0 / columns)
        self._scale = np.array([self._frame[0] * unit[0], self._frame[1] * unit[1]] * 2)

    def __call__(self, frame: np.ndarray) -> List[Place]:
        """The places of people. Raises ``FrameDropped`` where the network fails or gives no numbers."""
        picture = self._resize(frame).reshape(self._frame_of_network)
        low, step = self._range
        found = self._runner.run({self._input: (picture.astype(np.float32) * step + low)[None]})
        scores, boxes = np.asarray(found["scores"])[0], np.asarray(found["boxes"])[0].astype(np.float64)
        if not (np.isfinite(scores).all() and np.isfinite(boxes).all()):
            raise FrameDropped("not-finite")
        seen = scores >= self._rules.least_score
        if self._rules.person is not None:
            seen &= np.rint(np.asarray(found["classes"])[0]) == self._rules.person
        boxes = boxes if self._rules.order == "yxyx" else boxes[:, [1, 0, 3, 2]]
        order = np.flatnonzero(seen)[np.argsort(-scores[seen], kind="stable")]
        return [self._place(box) for box in _apart((boxes * self._scale)[order], self._most)]

    @property
    def _frame_of_network(self) -> Tuple[int, int, int]:
        return self._rules.size

    def _place(self, box: np.ndarray) -> Place:
        top, left, bottom, right = (float(edge) for edge in box)
        row = bottom if self._rules.point == "feet" else (top + bottom) / 2
        return min(max(row, 0.0), float(self._frame[0])), min(max((left + right) / 2, 0.0), float(self._frame[1]))


def _apart(boxes: np.ndarray, most: int) -> List[np.ndarray]:
    """The first of those that overlap, in their order; boxes (n, 4) as top, left, bottom, right."""
    kept: List[np.ndarray] = []
    for box in boxes:
        if len(kept) == most:
            break
        if box[2] > box[0] and box[3] > box[1] and all(_overlap(box, other) <= OVERLAP for other in kept):
            kept.append(box)
    return kept


def _overlap(one: np.ndarray, other: np.ndarray) -> float:
    """Intersection over union."""
    down = min(one[2], other[2]) - max(one[0], other[0])
    across = min(one[3], other[3]) - max(one[1], other[1])
    if down <= 0 or across <= 0:
        return 0.0
    area = (one[2] - one[0]) * (one[3] - one[1]) + (other[2] - other[0]) * (other[3] - other[1])
    return float(down * across / (area - down * across))
