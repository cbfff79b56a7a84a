"""The base of all backends: it maps named arrays of real numbers to the interpreter's own tensors and back."""

from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple, Union

import numpy as np

from edgeveil.edge_runtime.errors import BadInput, FrameDropped
from edgeveil.edge_runtime.lut import Flow, LutArray, lazy, map_values


class Backend(object):
    """One artefact on one interpreter: ``__init__`` opens it, ``run``, ``info``, ``close``.

    ``model`` is the artefact's bytes and ``artefact`` its entry in the manifest. ``threads`` is how many the
    interpreter may use; ``kernels`` is ``"production"`` or ``"reference"``; ``device`` is one of
    ``edge_runtime.device``. A subclass gives ``_open``, which sets ``_version``, ``_infer``, ``placement`` and
    ``close``. Raises the interpreter's own error where it cannot open the model, and ``NoDevice`` where it cannot have
    the device.

    A backend is found by its ``name``. Its facts are literals of its body: ``package``, the module to look for;
    ``formats``, each with what to install for it; ``last``, where others are tried before it, and ``first``, where it
    must be loaded before others; ``calls``, where its system calls were measured (sandbox/allowed_calls.py).
    ``devices`` are the words of accelerators, each with the formats that run there, ``and_cpu`` those that may leave
    operations to the processor, ``slow_to_open`` and ``hears_usb`` as the functions of ``edge_runtime.device``;
    ``compiled`` are the accelerators that run a vendor compiler's files alone: of what (format, precision), what it
    makes, and the compiler in words.
    """

    name: str
    _version = ""
    block = 0  # the most frames that ``_infer`` takes, where it takes others than ``batch``
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
        self._threads, self._kernels = threads, kernels
        self._inputs = [Tensor(entry) for entry in artefact["inputs"]]
        self._outputs = [Tensor(entry) for entry in artefact["outputs"]]
        sizes = {tensor.shape[:1] for tensor in self._inputs + self._outputs}
        if len(sizes) != 1 or () in sizes:
            raise BadInput("expected tensors with one batch size; theirs are {}".format(sizes))
        self.batch = sizes.pop()[0]
        self._open(model)

    def run(self, inputs: Mapping[str, np.ndarray]) -> Flow:
        """Real float32 arrays ``{name: (n, ...)}`` in, a ``Flow`` of real float32 (n, ...) of their own memory out.

        Table entries in a ``Flow`` of ``inputs`` are used as such. An artefact takes ``batch`` frames at a time: n
        frames run in batches, the last one padded. Raises ``FrameDropped``: ``shape`` where an input does not fit the
        artefact, ``output-shape`` or ``output-dtype`` where an output does not fit the manifest, ``backend`` where the
        interpreter fails. Three threads may call ``preprocess``, ``infer`` and ``postprocess`` one after the other
        instead.
        """
        return self.postprocess(self.infer(self.preprocess(inputs)))

    def preprocess(self, inputs: Mapping[str, np.ndarray]) -> List[np.ndarray]:
        """Inputs of ``run`` to those of ``infer``: a list of arrays (n, ...) of the artefact's own types."""
        feeds = [tensor.encode(lazy(inputs, tensor.name)) for tensor in self._inputs]
        if any(len(feed) != len(feeds[0]) for feed in feeds):
            raise FrameDropped("shape")
        return feeds

    def infer(self, feeds: List[np.ndarray]) -> List[np.ndarray]:
        """Arrays of ``preprocess`` in, arrays (n, ...) of the artefact's own types out, in memory of their own."""
        n = len(feeds[0]) if feeds else 1
        if n == self.batch or 0 < n <= self.block:
            values = self._run_checked(feeds, n)
            # A copy: the interpreter may write the next frame into the memory it returned.
            return values if self.copies else [np.array(value) for value in values]
        columns = [np.empty((n,) + tensor.shape[1:], tensor.dtype) for tensor in self._outputs]
        size = self.block or self.batch
        for row in range(0, n, size):
            count = min(size, n - row)
            whole = count if self.block else size
            values = self._run_checked([_pad(feed[row : row + count], whole) for feed in feeds], whole)
            for value, column in zip(values, columns):
                column[row : row + count] = value[:count]
        return columns

    def postprocess(self, values: List[np.ndarray]) -> Flow:
        """Arrays of ``infer`` in, outputs of ``run`` out."""
        return Flow({tensor.name: tensor.decode(value) for tensor, value in zip(self._outputs, values)})

    def bare_call(self, rng: "np.random.RandomState") -> Callable[[], Any]:
        """A function that runs only the interpreter, once, on random numbers of its own types."""
        feeds = [tensor.encode(rng.random_sample(tensor.shape).astype(np.float32)) for tensor in self._inputs]
        return lambda: self._infer(feeds)

    def _run_checked(self, feeds: List[np.ndarray], n: int) -> List[np.ndarray]:
        """The outputs for n frames, checked against the manifest."""
        values = self._attempt(feeds)
        if values is None:
            # Raised outside the handler: the interpreter's own message may hold its input.
            raise FrameDropped("backend")
        for tensor, value in zip(self._outputs, values):
            if value.dtype != tensor.dtype:
                raise FrameDropped("output-dtype")
            if value.shape != (n,) + tensor.shape[1:]:
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
                    raise BadInput(
                        "the manifest names the tensor {!r}, which is not in the artefact".format(tensor.tensor)
                    )
                shape, dtype, handle = has[tensor.tensor]
                if tuple(shape) != tensor.shape or np.dtype(dtype) != tensor.dtype:
                    raise BadInput(
                        "the manifest says {!r} is {} {}; in the artefact it is {} {}".format(
                            tensor.tensor, tensor.dtype, list(tensor.shape), np.dtype(dtype), list(shape)
                        )
                    )
                handles.append(handle)
        return handles[: len(self._inputs)], handles[len(self._inputs) :]

    def _open(self, model: bytes) -> None:
        raise NotImplementedError

    def _infer(self, feeds: List[np.ndarray]) -> List[np.ndarray]:
        """``batch`` frames, or up to ``block``: encoded arrays in the manifest's order in, the interpreter's arrays
        in its order out."""
        raise NotImplementedError

    def info(self) -> Dict[str, Any]:
        """``{"backend": name, "version": text, "threads": count, "kernels": which}``."""
        return {"backend": self.name, "version": self._version, "threads": self._threads, "kernels": self._kernels}

    def placement(self) -> Dict[str, Any]:
        """Where the operations run, as the interpreter itself reports after opening the model.

        ``{"device": name, "kernels": {kind: operations or "all"}, "said_by": text, "driver": text, "compiler": text}``;
        ``compiler`` turned the artefact's operations into those that run. Nothing is guessed.
        """
        raise NotImplementedError

    def close(self) -> None:
        """Release the interpreter; the backend cannot be used afterwards."""
        raise NotImplementedError


def placement_record(
    device: str,
    kernels: Mapping[str, Any],
    said_by: str,
    *,
    driver: str = "not applicable",
    compiler: str = "not applicable",
) -> Dict[str, Any]:
    """The result of ``Backend.placement``. A processor needs no driver, and an interpreter no compiler."""
    return {"device": device, "kernels": kernels, "said_by": said_by, "driver": driver, "compiler": compiler}


def _pad(feed: np.ndarray, count: int) -> np.ndarray:
    """``feed`` (n, ...) and rows of zeros after it, ``count`` in all."""
    if len(feed) == count:
        return feed
    return np.concatenate([feed, np.zeros((count - len(feed),) + feed.shape[1:], feed.dtype)])


class Tensor(object):
    """One input or output of an artefact, and the conversion between its numbers and real ones.

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
