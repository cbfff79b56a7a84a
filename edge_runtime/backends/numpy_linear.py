"""Linear cleaners on numpy alone, for boards without an interpreter: format ``numpy``, a ``.npz`` of their matrices."""

import io
from typing import Any, Dict, List

import numpy as np

from edgeveil.edge_runtime.backends.base import Backend, placement_record
from edgeveil.edge_runtime.errors import BadInput

ARRAYS = ("encoder", "encoder_bias", "decoder", "decoder_bias", "eps")


class NumPy(Backend):
    """One input x (n, features), two outputs: x~ (n, features) and the code (n, r), called ``output`` and ``code``.

    ``code = (1 - alpha) c`` for ``c = x E + e``, with ``alpha_i = sqrt(clip((eps - sum_{j<i} c_j^2) / c_i^2, 0, 1))``;
    ``x~ = code D + d``. The file has float32 ``encoder`` E (features, r), ``encoder_bias`` e (r,), ``decoder`` D
    (r, features), ``decoder_bias`` d (features,) and ``eps`` (). Any number of frames goes through at once.
    """

    name = "numpy"
    package = "numpy"
    formats = {"numpy": "numpy"}
    calls = ""
    block = 4096  # their coordinates stay in the cache between the two products
    copies = True

    def _open(self, model: bytes) -> None:
        with np.load(io.BytesIO(model), allow_pickle=False) as file:
            if sorted(file.files) != sorted(ARRAYS):
                raise BadInput("expected the arrays {}; got {}".format(", ".join(ARRAYS), ", ".join(file.files)[:200]))
            arrays = {name: file[name] for name in ARRAYS}
        features, rank = arrays["encoder"].shape if arrays["encoder"].ndim == 2 else (0, 0)
        shapes = dict(zip(ARRAYS, ((features, rank), (rank,), (rank, features), (features,), ())))
        for name, array in arrays.items():
            if array.shape != shapes[name] or array.dtype != np.float32 or not np.isfinite(array).all():
                raise BadInput("expected {} as finite float32 {}; got {!r}".format(name, shapes[name], array.shape))
        self._match_tensors(
            [
                {"features": ((self.batch, features), "float32", 0)},
                {"output": ((self.batch, features), "float32", 0), "code": ((self.batch, rank), "float32", 1)},
            ]
        )
        self._arrays = arrays
        self._before = np.triu(np.ones((rank, rank), np.float32), 1)
        self._tiny = np.float32(1e-30 * max(float(arrays["eps"]), 1.0))
        self._version = np.__version__

    def _infer(self, feeds: List[np.ndarray]) -> List[np.ndarray]:
        a = self._arrays
        # Infinite or huge inputs overflow here; their outputs are not finite and are dropped.
        with np.errstate(over="ignore", invalid="ignore"):
            c = feeds[0].dot(a["encoder"])
            c += a["encoder_bias"]
            delta = c * c
            left = delta.dot(self._before)
            np.subtract(a["eps"], left, out=left)
            np.maximum(left, np.float32(0), out=left)
            np.maximum(delta, self._tiny, out=delta)
            share = np.divide(left, delta, out=left)
            np.minimum(share, np.float32(1), out=share)
            np.sqrt(share, out=share)
            np.subtract(np.float32(1), share, out=share)
            code = np.multiply(share, c, out=c)
            output = code.dot(a["decoder"])
            output += a["decoder_bias"]
        tensors = {"output": output, "code": code}
        return [tensors[tensor.tensor] for tensor in self._outputs]

    def placement(self) -> Dict[str, Any]:
        """As ``Backend.placement``: numpy runs nowhere else."""
        return placement_record("CPU", {"numpy": "all"}, "numpy runs on the processor alone")

    def close(self) -> None:
        """Release the matrices."""
        self._arrays = {}
