"""What OpenCV and others hand over, as the bundle wants it: RGB or gray, its size, its type."""

from typing import Any

import numpy as np

from edgeveil.edge_runtime.errors import BadInput, FrameDropped, Unsupported
from edgeveil.edge_runtime.sources.base import Sensor


def need_image(spec: Sensor, what: str) -> None:
    """Raise ``BadInput`` where a bundle takes vectors."""
    if spec["kind"] != "image":
        raise BadInput("this bundle perturbs vectors, and {} gives pictures: use csv:FILE or wifi:".format(what))


def need_depth(spec: Sensor, what: str) -> None:
    """Raise ``Unsupported`` unless a bundle takes depth: uint16 (height, width, 1)."""
    need_image(spec, what)
    if spec["dtype"] != "uint16" or spec["shape"][2] != 1:
        raise Unsupported(
            "{} gives depth, uint16 (height, width, 1); this bundle takes {} {}".format(
                what, spec["dtype"], tuple(spec["shape"])
            )
        )


def fit(picture: np.ndarray, spec: Sensor, cv2: Any) -> np.ndarray:
    """A picture of OpenCV's (gray, or blue, green, red) as (height, width, channels) of ``spec``.

    Raises ``FrameDropped``: ``shape``, ``dtype``.
    """
    channels = spec["shape"][2]
    if picture.ndim == 3 and picture.shape[2] == 3:
        picture = picture[:, :, ::-1] if channels == 3 else cv2.cvtColor(picture, cv2.COLOR_BGR2GRAY)
    elif picture.ndim == 2 and channels == 3:
        picture = cv2.cvtColor(picture, cv2.COLOR_GRAY2RGB)
    if picture.ndim == 2:
        picture = picture[:, :, None]
    if list(picture.shape) != list(spec["shape"]):
        raise FrameDropped("shape")
    if picture.dtype != np.dtype(spec["dtype"]):
        raise FrameDropped("dtype")
    return np.ascontiguousarray(picture)


def fits(picture: np.ndarray, spec: Sensor, what: str, cv2: Any) -> np.ndarray:
    """``fit``, for the first picture of a source: raises ``Unsupported``, which says what came and what was wanted."""
    try:
        return fit(picture, spec, cv2)
    except FrameDropped:
        problem = "{} gives {} {}; this bundle takes {} {}. Set the camera to that, or export for this one."
    raise Unsupported(problem.format(what, picture.dtype, picture.shape, spec["dtype"], tuple(spec["shape"])))
