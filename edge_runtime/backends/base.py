"""What every backend shares: names and real numbers on our side, the interpreter's own tensors on the other."""

from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple, Union

import numpy as np

from edgeveil.edge_runtime.errors import BadInput, FrameDropped
from edgeveil.edge_runtime.lut import Flow, LutArray, lazy, map_values


class Backend(object):
    """One artefact on one interpreter: ``__init__`` opens it, ``run``, ``info``, ``close``.

    ``model`` is the artefact's bytes and ``artefact`` its entry in the manifest. ``threads`` is how many the
    interpreter may use; ``kernels`` is ``"production"`` or ``"reference"``; ``device`` a word of
    ``backends.device``. A subclass gives ``_open``, ``_infer``, ``info``, ``placement`` and ``close``. Raises what the
    interpreter raises where it cannot open the model, and ``NoDevice`` where it cannot have the device.
    """

    name = ""  # what the manifest and the command line call it
    copies = False  # whether ``_infer`` returns memory that the interpreter does not write to again

    def __init__(
        self,
        model: bytes,
        artefact: Mapping[str, Any],
        *,
        threads: int = 1,
        kernels: str = "production",
        device: str = "cpu",
    ) -> None:
        self.device, self.precision = device, artefact.get("precision", "float32")
        self._inputs = [Tensor(entry) for entry in artefact["inputs"]]
        self._outputs = [Tensor(entry) for entry in artefact["outputs"]]
        sizes = {tensor.shape[:1] for tensor in self._inputs + self._outputs}
        if len(sizes) != 1 or () in sizes:
            raise BadInput("expected tensors for one number of frames at a time; they begin with {}".format(sizes))
        self.batch = sizes.pop()[0]
        self._open(model, threads, kernels)

    def run(self, inputs: Mapping[str, np.ndarray]) -> Flow:
        """Real float32 arrays ``{name: (n, ...)}`` in, a ``Flow`` of real float32 (n, ...) of their own memory out.

        Where ``inputs`` is a ``Flow`` too, what it holds as looked up is taken as such. An artefact takes ``batch``
        frames at a time; n of them go through that many after the other, the last ones filled up with what is let fall
        again. Raises ``FrameDropped``: ``shape`` where an input is not what the artefact takes, ``output-shape`` or
        ``output-dtype`` where the interpreter returns something else than the manifest says, ``backend`` where it
        fails. ``preprocess``, ``infer`` and ``postprocess``, one after the other, are the same, for three threads.
        """
        return self.postprocess(self.infer(self.preprocess(inputs)))

    def preprocess(self, inputs: Mapping[str, np.ndarray]) -> List[np.ndarray]:
        """Inputs as in ``run``; what ``infer`` takes: a list of arrays (n, ...) of the artefact's own types."""
        feeds = [tensor.encode(lazy(inputs, tensor.name)) for tensor in self._inputs]
        if any(len(feed) != len(feeds[0]) for feed in feeds):
            raise FrameDropped("shape")
        return feeds

    def infer(self, feeds: List[np.ndarray]) -> List[np.ndarray]:
        """What ``preprocess`` returned in, arrays (n, ...) of the artefact's own types out, in memory of their own."""
        n = len(feeds[0]) if feeds else 1
        if n == self.batch:
            values = self._run_checked(feeds)
            # Memory of our own: what an interpreter returned may be the next frame's place.
            return values if self.copies else [np.array(value) for value in values]
        columns = [np.empty((n,) + tensor.shape[1:], tensor.dtype) for tensor in self._outputs]
        for row in range(0, n, self.batch):
            count = min(self.batch, n - row)
            values = self._run_checked([_pad(feed[row : row + count], self.batch) for feed in feeds])
            for value, column in zip(values, columns):
                column[row : row + count] = value[:count]
        return columns

    def postprocess(self, values: List[np.ndarray]) -> Flow:
        """What ``infer`` made in, outputs as of ``run`` out."""
        return Flow({tensor.name: tensor.decode(value) for tensor, value in zip(self._outputs, values)})

    def bare_call(self, rng: "np.random.RandomState") -> Callable[[], Any]:
        """A function that runs the interpreter once on random numbers in its own form, and nothing around it."""
        feeds = [tensor.encode(rng.random_sample(tensor.shape).astype(np.float32)) for tensor in self._inputs]
        return lambda: self._infer(feeds)

    def _run_checked(self, feeds: List[np.ndarray]) -> List[np.ndarray]:
        """What the interpreter makes of ``batch`` frames, as the manifest has it."""
        values = self._attempt(feeds)
        if values is None:
            # Raised outside the handler: an interpreter's own message may hold what it was given.
            raise FrameDropped("backend")
        for tensor, value in zip(self._outputs, values):
            if value.dtype != tensor.dtype:
                raise FrameDropped("output-dtype")
            if value.shape != tensor.shape:
                raise FrameDropped("output-shape")
        return values

    def _attempt(self, feeds: List[np.ndarray]) -> Optional[List[np.ndarray]]:
        try:
            return self._infer(feeds)
        except Exception:
            return None

    def _match_tensors(self, found: Sequence[Mapping[str, Tuple[Any, Any, Any]]]) -> Tuple[List[Any], List[Any]]:
        """The interpreter's tensors ``{name: (shape, dtype, handle)}`` checked against the manifest; handles in order.

        ``found`` is a pair, inputs and outputs. Raises ``BadInput``.
        """
        handles = []
        for tensors, has in zip((self._inputs, self._outputs), found):
            for tensor in tensors:
                if tensor.tensor not in has:
                    raise BadInput("the manifest names the tensor {!r}, which is not in it".format(tensor.tensor))
                shape, dtype, handle = has[tensor.tensor]
                if tuple(shape) != tensor.shape or np.dtype(dtype) != tensor.dtype:
                    raise BadInput(
                        "the manifest says {!r} is {} {}, and it is {} {}".format(
                            tensor.tensor, tensor.dtype, list(tensor.shape), np.dtype(dtype), list(shape)
                        )
                    )
                handles.append(handle)
        return handles[: len(self._inputs)], handles[len(self._inputs) :]

    def _open(self, model: bytes, threads: int, kernels: str) -> None:
        raise NotImplementedError

    def _infer(self, feeds: List[np.ndarray]) -> List[np.ndarray]:
        """``batch`` frames: encoded arrays in the manifest's order in, the interpreter's arrays in its order out."""
        raise NotImplementedError

    def info(self) -> Dict[str, Any]:
        """``{"backend": name, "version": text, "threads": count, "kernels": which}``."""
        raise NotImplementedError

    def placement(self) -> Dict[str, Any]:
        """Where the operations run, as the interpreter itself says after opening the model.

        ``{"device": name, "kernels": {kind: operations or "all"}, "said_by": text, "driver": text, "compiler": text}``;
        ``compiler`` is what made of the artefact's operations those that run. Nothing is said that was not asked.
        """
        raise NotImplementedError

    def close(self) -> None:
        """Let the interpreter go; the backend cannot be used afterwards."""
        raise NotImplementedError


def placement_record(
    device: str,
    kernels: Mapping[str, Any],
    said_by: str,
    *,
    driver: str = "not applicable",
    compiler: str = "not applicable",
) -> Dict[str, Any]:
    """What ``Backend.placement`` returns. A processor needs no driver, and an interpreter no compiler."""
    return {"device": device, "kernels": kernels, "said_by": said_by, "driver": driver, "compiler": compiler}


def _pad(feed: np.ndarray, count: int) -> np.ndarray:
    """``feed`` (n, ...) with rows of zeros behind it, ``count`` in all."""
    if len(feed) == count:
        return feed
    return np.concatenate([feed, np.zeros((count - len(feed),) + feed.shape[1:], feed.dtype)])


class Tensor(object):
    """One input or output of an artefact, and the way between its numbers and real ones.

    ``real = (q - zero_point) * scale`` for a quantised tensor; a float one is itself.
    """

    def __init__(self, entry: Mapping[str, Any]) -> None:
        self.name, self.tensor = entry["name"], entry["tensor"]
        self.shape, self.dtype = tuple(entry["shape"]), np.dtype(entry["dtype"])
        self._scale = None if entry["scale"] is None else np.float32(entry["scale"])
        self._zero = np.float32(entry["zero_point"] or 0)
        if self.dtype.kind in "iu" and self._scale is None:
            raise BadInput("expected a scale for {!r}, which is {}".format(self.name, self.dtype))
        self._table: Optional[np.ndarray] = None
        if self.dtype.itemsize == 1 and self.dtype.kind in "iu":
            every = np.arange(256, dtype=np.uint8).view(self.dtype).astype(np.float32)
            with np.errstate(over="ignore"):
                self._table = (every - self._zero) * self._scale
            if not np.isfinite(self._table).all():
                raise BadInput("expected a finite scale for {!r}; got {}".format(self.name, entry["scale"]))
        self._encode = map_values(self._arithmetic)

    def encode(self, value: Union[np.ndarray, LutArray]) -> np.ndarray:
        """Real float32 (n, ...) to the tensor's dtype, rounded half to even, clipped to what it holds."""
        if value.shape[1:] != self.shape[1:]:
            raise FrameDropped("shape")
        return self._encode(value)

    def _arithmetic(self, value: np.ndarray) -> np.ndarray:
        if self._scale is None:
            return value.astype(self.dtype, copy=False)
        q = value / self._scale
        np.rint(q, out=q)
        q += self._zero
        limits = np.iinfo(self.dtype)
        np.maximum(q, np.float32(limits.min), out=q)
        np.minimum(q, np.float32(limits.max), out=q)
        return q.astype(self.dtype)

    def decode(self, value: np.ndarray) -> Union[np.ndarray, LutArray]:
        """The artefact's own numbers (n, ...) as real float32 or, of bytes, as ``LutArray``."""
        if self._table is not None:
            return LutArray(self._table, value.view(np.uint8))
        if self._scale is None:
            return value.astype(np.float32, copy=False)
        return (value.astype(np.float32) - self._zero) * self._scale
