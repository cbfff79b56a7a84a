"""``images:DIR``: one PNG a frame, named by its number, written as it comes."""

import os
from typing import List

import numpy as np

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.frames import PerturbedFrame
from edgeveil.edge_runtime.late_imports import opencv
from edgeveil.edge_runtime.manifest.manifest import Output
from edgeveil.edge_runtime.sinks.base import Sink
from edgeveil.edge_runtime.util.atomic import write_atomic


class ImagesSink(Sink):
    """Writes the output called ``frame`` as ``00000000.png``, gray or RGB, 8 or 16 bits, into an empty folder."""

    schemes = ("images",)
    forms = ("images:DIR",)
    help = "`00000000.png`, ... into an empty folder"
    needs = ("opencv",)
    file = True
    part = ""

    def __init__(self, folder: str, outputs: List[Output]) -> None:
        frames = [output for output in outputs if output.kind == "frame"]
        if not frames or len(frames[0].shape) != 3 or frames[0].shape[2] not in (1, 3):
            raise BadInput("this bundle has no output of gray or RGB images: use npz:FILE")
        if frames[0].dtype not in ("uint8", "uint16"):
            raise BadInput("a PNG holds uint8 or uint16; this bundle gives {}: use npz:FILE".format(frames[0].dtype))
        self._cv2 = opencv()
        self._name = frames[0].name
        self._folder = folder
        self._written: List[str] = []
        try:
            os.makedirs(folder, exist_ok=True)
            taken = os.listdir(folder)
        except OSError as error:
            taken, problem = [], str(error.strerror).lower()
        else:
            problem = "it has files in it" if taken else ""
        if problem:
            raise BadInput("expected an empty folder, or one that can be made, at {}: {}".format(folder, problem))

    def _write(self, frame: PerturbedFrame) -> None:
        picture = frame.outputs[self._name]
        if picture.shape[2] == 3:
            picture = picture[:, :, ::-1]
        # OpenCV's own imwrite does not report a full disk and leaves half a file.
        data = self._cv2.imencode(".png", np.ascontiguousarray(picture))[1]
        path = os.path.join(self._folder, "{:08d}.png".format(frame.index))
        write_atomic(path, data.tobytes())
        self._written.append(path)

    def close(self) -> None:
        """Each picture was already written whole."""
        self._written = []

    def discard(self) -> None:
        """Remove the pictures of this run."""
        for path in self._written:
            os.unlink(path)
        self._written = []
