"""The manifest's stages in order, compiled once into functions: raw readings in, what may leave out."""

import io
import os
import time
from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional, Tuple, Union

import numpy as np

from edgeveil.edge_runtime.backends import open_backend
from edgeveil.edge_runtime.errors import BadInput, FrameDropped
from edgeveil.edge_runtime.frames import _PIPELINE, PerturbedFrame, RawFrame
from edgeveil.edge_runtime.lut import Flow
from edgeveil.edge_runtime.pipeline.model_stage import ModelStage
from edgeveil.edge_runtime.pipeline.random_draws import RandomBytes
from edgeveil.edge_runtime.pipeline.stages import Run, compile_stage, reads_and_writes
from edgeveil.edge_runtime.pipeline.track_memory import Holding

Draws = Mapping[str, np.ndarray]  # recorded values by the output of their draw stage
Step = Tuple[Run, Optional[Tuple[str, Tuple[int, ...]]]]  # a compiled stage; of a draw, its output and shape


class Pipeline(object):
    """The stages of a manifest, ready to run.

    ``description`` has ``input``, ``stages``, ``outputs`` and, for hold stages, ``stream`` as in the manifest
    (docs/reference/bundle-format.md). ``tables`` maps a name to its array. ``runners`` maps a model's name to an object
    with ``run({tensor: (n, ...)})`` returning ``{tensor: float32 (n, ...)}``: a backend on the board, a Keras model in
    training. ``random_bytes`` and ``clock`` are for tests. Raises ``BadInput`` where the description does not hold
    together.
    """

    def __init__(
        self,
        description: Mapping[str, Any],
        *,
        tables: Mapping[str, np.ndarray],
        runners: Mapping[str, Any],
        random_bytes: RandomBytes = os.urandom,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        spec = description["input"]
        self.shape, self.dtype = tuple(spec["shape"]), np.dtype(spec["dtype"])
        self.runners, self.random_bytes, self._tables = runners, random_bytes, tables
        self.input = spec["name"]
        self.holding = Holding(description.get("stream"), clock=clock)
        stages: List[Step] = []
        known = {self.input}
        for stage in description["stages"]:
            reads, writes = reads_and_writes(stage)
            missing, again = [n for n in reads if n not in known], [n for n in writes if n in known]
            if missing or again:
                raise BadInput(
                    "the stage {!r} {} {!r}: every value is made once, before it is used".format(
                        stage["stage"], "uses" if missing else "makes a second", (missing or again)[0]
                    )
                )
            known.update(writes)
            drawn = (stage["output"], tuple(stage.get("shape", ()))) if stage["stage"] == "draw" else None
            stages.append((compile_stage(stage, self), drawn))
        self._before, self._middle, self._after = _parts(stages, description.get("stream") is not None)
        self._outputs = [
            (o["name"], o["tensor"], tuple(o["shape"]), np.dtype(o["dtype"])) for o in description["outputs"]
        ]
        unmade = [tensor for _, tensor, _, _ in self._outputs if tensor not in known or tensor == self.input]
        if unmade or not self._outputs:
            raise BadInput("expected outputs that a stage makes; got {}".format(unmade or "none"))

    def table(self, name: str) -> np.ndarray:
        """The table called ``name``; raises ``BadInput`` where there is none."""
        if name not in self._tables:
            raise BadInput("a stage names the table {!r}, which is not there".format(name))
        return self._tables[name]

    def run(
        self, x: np.ndarray, draws: Optional[Draws] = None, tracks: Optional[Iterable[int]] = None
    ) -> Dict[str, np.ndarray]:
        """Raw readings x (n, *shape) of the input's dtype in, ``{output name: (n, ...)}`` out, arrays of their own.

        ``draws`` maps the output name of every draw stage to recorded values (n, ...); without it they come from
        the operating system's generator. ``tracks`` (n numbers) says whose frames of a stream these are, in order of
        time; without it each reading stands for a whole track that is like it. Raises ``FrameDropped`` (``shape``,
        ``dtype``, ``not-finite``, ...).
        """
        flow = self._enter(x, draws)
        self._work(flow, draws, tracks)
        return self._leave(flow, draws)

    def begin(self, frame: RawFrame) -> "Flight":
        """A ``Flight`` of a ``RawFrame``, and what comes before the model. Never raises; ``end`` says what failed."""
        flight = Flight(frame)
        flight.flow = flight.step(lambda: self._enter(frame._data[None])) or flight.flow
        return flight

    def infer(self, flight: "Flight") -> None:
        """The model for a flight that ``begin`` made; the same thread for all of them, in order."""
        flight.step(lambda: self._work(flight.flow, None, [flight.frame.track]))

    def end(self, flight: "Flight") -> PerturbedFrame:
        """What comes after the model: the ``PerturbedFrame`` of a flight. Raises ``FrameDropped`` and nothing else."""
        out = flight.step(lambda: self._leave(flight.flow))
        if flight.reason:
            # Raised here, where no array is in scope and no other error hangs on it: nothing of the frame can be
            # printed, whoever prints the traceback.
            raise FrameDropped(flight.reason)
        return PerturbedFrame(flight.frame.index, {name: value[0] for name, value in out.items()}, _PIPELINE)

    def perturb(self, frame: RawFrame) -> PerturbedFrame:
        """One ``RawFrame`` in, its ``PerturbedFrame`` out. Whatever goes wrong is a ``FrameDropped`` and no more."""
        flight = self.begin(frame)
        self.infer(flight)
        return self.end(flight)

    def perturb_batch(self, frames: List[RawFrame]) -> List[Union[PerturbedFrame, str]]:
        """A list of ``RawFrame`` in; out, in order, for each its ``PerturbedFrame`` or the reason it was dropped.

        The frames go through the stages together; where that fails, one by one, so that a bad one costs itself alone.
        """
        outputs, reason = self._attempt(frames) if frames else ({}, None)
        if reason is None:
            rows = ({name: value[i] for name, value in outputs.items()} for i in range(len(frames)))
            return [PerturbedFrame(frame.index, row, _PIPELINE) for frame, row in zip(frames, rows)]
        if len(frames) == 1:
            return [reason]
        return [self.perturb_batch([frame])[0] for frame in frames]

    def forget(self, track: int) -> None:
        """A track of the stream has ended: nothing of it is kept."""
        self.holding.forget(track)

    def close(self) -> None:
        """Let the interpreters go."""
        for runner in self.runners.values():
            runner.close()

    def _enter(self, x: np.ndarray, draws: Optional[Draws] = None) -> Flow:
        """Readings (n, ...) that are what they should be, and the stages before the model done: the flow."""
        if x.shape[1:] != self.shape or x.ndim != len(self.shape) + 1:
            raise FrameDropped("shape")
        if x.dtype != self.dtype:
            raise FrameDropped("dtype")
        if self.dtype.kind == "f" and not np.isfinite(x).all():
            raise FrameDropped("not-finite")
        flow = Flow({self.input: x})
        self._carry(self._before, flow, draws)
        return flow

    def _work(self, flow: Flow, draws: Optional[Draws], tracks: Optional[Iterable[int]]) -> None:
        self.holding.begin(None if tracks is None else list(tracks))
        self._carry(self._middle, flow, draws)
        self.holding.commit()

    def _leave(self, flow: Flow, draws: Optional[Draws] = None) -> Dict[str, np.ndarray]:
        """The stages after the model, and the outputs in memory of their own."""
        self._carry(self._after, flow, draws)
        n = len(flow[self.input])
        out = {}
        for name, tensor, shape, dtype in self._outputs:
            value = flow[tensor]
            if value.dtype != dtype:
                raise FrameDropped("output-dtype")
            if value.shape != (n,) + shape:
                raise FrameDropped("output-shape")
            out[name] = np.array(value, order="C")
        return out

    def _carry(self, stages: List[Step], flow: Flow, draws: Optional[Draws]) -> None:
        for stage, drawn in stages:
            if drawn and draws is not None:
                flow[drawn[0]] = _recorded(draws, drawn[0], (len(flow[self.input]),) + drawn[1])
            else:
                stage(flow)

    def _attempt(self, frames: List[RawFrame]) -> Tuple[Dict[str, np.ndarray], Optional[str]]:
        """The outputs of some frames and None, or none and the reason. Keeps every error, and its frames, inside."""
        try:
            first = frames[0]._data
            # Stacking would bring readings of different types to one of them without a word.
            if any(frame._data.dtype != first.dtype for frame in frames):
                return {}, "dtype"
            x = first[None] if len(frames) == 1 else np.stack([frame._data for frame in frames])
            return self.run(x, tracks=[frame.track for frame in frames]), None
        except FrameDropped as drop:
            return {}, drop.reason
        except Exception:
            return {}, "error"


class Flight(object):
    """One frame on its way through a pipeline: ``frame``, its ``flow``, and ``reason`` where it is dropped."""

    __slots__ = ("flow", "frame", "reason")

    def __init__(self, frame: RawFrame) -> None:
        self.frame = frame
        self.flow = Flow({})
        self.reason = ""

    def erase(self) -> None:
        """Make zeros of the frame and of all that was made of it on the way, where its memory is ours."""
        self.flow.erase()
        self.frame.erase()

    def step(self, part: Callable[[], Any]) -> Any:
        """Do one part of the way, unless the frame was dropped before. Keeps every error, and its frame, inside."""
        made = None
        if not self.reason:
            try:
                made = part()
            except FrameDropped as drop:
                self.reason = drop.reason
            except Exception:
                self.reason = "error"
        return made


def _parts(stages: List[Step], stream: bool) -> Tuple[List[Step], List[Step], List[Step]]:
    """What comes before the model, the model, what comes after: other threads may do these for other frames.

    All is the middle where there is no model, and for a stream: what it keeps is kept by one thread, in order.
    """
    models = [place for place, (stage, _) in enumerate(stages) if isinstance(stage, ModelStage)]
    if stream or not models:
        return [], stages, []
    before, middle, after = stages[: models[0]], stages[models[0] : models[-1] + 1], stages[models[-1] + 1 :]
    model = middle[0][0]
    if len(middle) > 1 or not isinstance(model, ModelStage):
        return before, middle, after
    return before + [(model.encode, None)], [(model.infer, None)], [(model.decode, None)] + after


def _recorded(draws: Draws, name: str, shape: Tuple[int, ...]) -> np.ndarray:
    """What was drawn when the golden vectors were made, in place of the generator; tests and the self-test alone."""
    if name not in draws or draws[name].shape != shape:
        raise BadInput("expected recorded draws {!r} of shape {}".format(name, shape))
    return draws[name]


def load_pipeline(
    manifest: Mapping[str, Any],
    members: Mapping[str, bytes],
    artefact: str,
    *,
    backend: str = "auto",
    threads: int = 1,
    kernels: str = "production",
    device: str = "cpu",
) -> Pipeline:
    """A ``Pipeline`` from a manifest and its member files ``{name: bytes}``, on the interpreters of this machine.

    ``artefact`` names one of the kinds every model has (``tflite-int8``); without models it is not looked at. The
    bytes must be verified ones: ``Perturber.open`` and the workstation's export folder see to that. Raises
    ``BadInput`` where a model has no such artefact, ``DeviceFailed`` where nothing installed can run it on ``device``.
    """
    tables = {name: read_array(members, entry) for name, entry in manifest["tables"].items()}
    runners = {}
    for name, model in manifest["models"].items():
        if artefact not in model["artefacts"]:
            raise BadInput(
                "the model {!r} has no artefact {!r}; it has {}".format(
                    name, artefact, ", ".join(sorted(model["artefacts"]))
                )
            )
        entry = model["artefacts"][artefact]
        runners[name] = open_backend(
            entry["format"],
            members[entry["file"]],
            entry,
            backend=backend,
            threads=threads,
            kernels=kernels,
            device=device,
        )
    return Pipeline(manifest, tables=tables, runners=runners)


def read_array(members: Mapping[str, bytes], entry: Mapping[str, Any]) -> np.ndarray:
    """The array of one ``.npy`` member, as ``entry`` (``file``, ``shape``, ``dtype``) says it is; read-only."""
    array = np.load(io.BytesIO(members[entry["file"]]), allow_pickle=False)
    if list(array.shape) != list(entry["shape"]) or array.dtype != np.dtype(entry["dtype"]):
        raise BadInput(
            "expected {} of {} {}; got {} {}".format(
                entry["file"], entry["dtype"], entry["shape"], array.dtype, list(array.shape)
            )
        )
    array.setflags(write=False)
    return array
