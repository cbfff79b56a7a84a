"""The stages of a manifest, compiled once into functions: raw samples in, perturbed outputs out."""

import collections
import contextlib
import io
import threading
import time
from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional, Tuple, Union

import numpy as np

from edgeveil.edge_runtime.backends import open_backend
from edgeveil.edge_runtime.errors import BadInput, BundleRefused, FrameDropped
from edgeveil.edge_runtime.frames import _PIPELINE, PerturbedFrame, RawFrame
from edgeveil.edge_runtime.lut import Flow
from edgeveil.edge_runtime.manifest.manifest import Manifest, Table
from edgeveil.edge_runtime.pipeline.compiler import Step, compile_stages
from edgeveil.edge_runtime.pipeline.track_memory import TrackMemory
from edgeveil.edge_runtime.stages.draw import Pool

# What stands for a reading that failed, where an epsilon is promised.
#
# An epsilon bounds the content of a report, not whether there is one: a missing report would reveal the reading that
# made the network fail. So the mechanisms then run on a fixed input, index 0 or the middle of the range, and the
# report is paid for too.


_MIDDLE = 0.5  # of what mechanisms and noise take, 0 to 1


class FixedInput(object):
    """``values`` (1, ...) are those that stages make of a reading, whose shapes and types are taken; ``outputs``
    (1, ...) leave where what comes after a report fails too."""

    def __init__(self, values: Mapping[str, np.ndarray], outputs: Dict[str, np.ndarray]) -> None:
        self._values = {name: np.full_like(v, _MIDDLE if v.dtype.kind == "f" else 0) for name, v in values.items()}
        self.outputs = {name: value.copy() for name, value in outputs.items()}
        for value in (*self._values.values(), *self.outputs.values()):
            value.setflags(write=False)

    def flow(self) -> Flow:
        """The flow of one reading, to which the noise is added."""
        return Flow(dict(self._values))


Draws = Mapping[str, np.ndarray]  # recorded values by the output of their draw stage


class Pipeline(object):
    """The stages of a manifest, ready to run.

    ``perturb`` is ``preprocess``, ``infer`` and ``postprocess``: three threads may do one each, in order.

    It uses the manifest's ``input``, ``stages``, ``outputs`` and, for hold stages, ``stream``. ``tables`` maps a name
    to its array. ``runners`` maps a model's name to an object with ``run({tensor: (n, ...)})`` returning ``{tensor:
    float32 (n, ...)}``: a backend on the board, a Keras model in training. Tests inject ``clock``. Raises ``BadInput``
    if the stages do not fit together.

    Where the manifest promises an epsilon, a *valid reading* has the input's shape and dtype. After ``prepare`` each of
    them gets a report: one that fails, for whatever reason, gets that of a fixed input (``fixed_input``), since a
    report that does not come has no noise. ``answered`` counts them by reason, in this process alone.
    """

    def __init__(
        self,
        manifest: Manifest,
        *,
        tables: Mapping[str, np.ndarray],
        runners: Mapping[str, Any],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.shape, self.dtype = manifest.input.shape, np.dtype(manifest.input.dtype)
        self.runners, self._tables = runners, tables
        self.input = manifest.input.name
        self.drawn = {stage.output: stage for stage in manifest.stages if stage.stage == "draw"}
        self.promises = manifest.spending is not None
        self._names_draws = False
        self._fixed: Optional[FixedInput] = None
        self.answered: Dict[str, int] = collections.Counter()
        self._ending = threading.Lock()  # held by the one thread that uses the memory of tracks of a promise
        if self.promises:
            from edgeveil.edge_runtime.manifest.spending import repeats_paid

            self._names_draws = repeats_paid(manifest)
        self.clipped = 0  # frames of a promise with a value beyond the bounds: it counts as the bound, and that is said
        self._bounds = (manifest.input.low, manifest.input.high) if self.promises else None
        self.pools: List[Pool] = []
        self.track_memory = TrackMemory(manifest.stream, clock=clock)
        program = compile_stages(manifest, self)
        self._before, self._middle, self._after = program.before, program.middle, program.after
        self._noise, self._uncovered = program.noise, program.uncovered
        self._outputs = [(o.name, o.tensor, o.shape, np.dtype(o.dtype)) for o in manifest.outputs]
        unmade = [tensor for _, tensor, _, _ in self._outputs if tensor not in program.made]
        if unmade or not self._outputs:
            raise BadInput("expected outputs that a stage makes; got {}".format(unmade or "none"))

    def table(self, name: str) -> np.ndarray:
        """The table ``name``; raises ``BadInput`` if there is none."""
        if name not in self._tables:
            raise BadInput("a stage names the table {!r}, which does not exist".format(name))
        return self._tables[name]

    def run(
        self, x: np.ndarray, draws: Optional[Draws] = None, tracks: Optional[Iterable[int]] = None
    ) -> Dict[str, np.ndarray]:
        """Raw samples x (n, *shape) of the input's dtype in, ``{output name: (n, ...)}`` out, in memory of their own.

        ``draws`` maps the output name of every draw stage to recorded values (n, ...); without it draws
        come from the operating system's generator. ``tracks`` (n numbers) is the track of each sample of a stream, in
        order of time; without it each sample stands for a whole track of equal samples. Raises ``FrameDropped``
        (``shape``, ``dtype``, ``not-finite``, ...).
        """
        # A backend, a table or x itself may own what a stage passed on.
        return {name: np.array(value, order="C") for name, value in self._run(x, draws, tracks).items()}

    def _run(self, x: np.ndarray, draws: Optional[Draws], tracks: Optional[Iterable[int]]) -> Dict[str, np.ndarray]:
        """As ``run``, in memory that may be another's."""
        flow = self._preprocess(x, draws)
        self._infer(flow, draws, tracks)
        return self._end(self._after, flow, draws, tracks)[0]

    def prepare(self, x: np.ndarray, draws: Draws) -> None:
        """Learn from a reading x (1, *shape) that runs what a failed one is answered with, where a promise is made."""
        if not self.promises:
            return
        flow = self._preprocess(x, draws)
        self._infer(flow, draws, None)
        outputs, _ = self._end(self._after, flow, draws, None)
        self._fixed = FixedInput({name: flow[name] for name in self._uncovered}, outputs)

    def preprocess(self, frame: RawFrame) -> "InFlight":
        """The stages before the model. Never raises: ``postprocess`` reports failures."""
        in_flight = InFlight(frame)
        flow = in_flight.step(lambda: self._preprocess(frame._data[None]))
        if flow is not None:
            in_flight.flow = flow
            self._count_clipped(frame._data[None])
        return in_flight

    def infer(self, in_flight: "InFlight") -> None:
        """The model, for the result of ``preprocess``; one thread for all frames, in order."""

        in_flight.step(lambda: self._infer(in_flight.flow, None, [in_flight.frame.track]))

    def no_reading(self, frame: RawFrame) -> str:
        """Why this is no valid reading, whatever its values are: ``shape`` or ``dtype``; empty where it is one."""
        return "shape" if frame._data.shape != self.shape else "dtype" if frame._data.dtype != self.dtype else ""

    def late(self, in_flight: "InFlight") -> PerturbedFrame:
        """The report of a valid reading whose own is not there in time, where a promise is made: of a fixed input."""
        late = InFlight(in_flight.frame)
        late.reason = in_flight.reason or "late"
        return self.postprocess(late)

    def postprocess(self, in_flight: "InFlight") -> PerturbedFrame:
        """The stages after the model: the ``PerturbedFrame``. Raises ``FrameDropped`` and nothing else."""
        track = [in_flight.frame.track]
        answer = in_flight.step(lambda: self._end(self._after, in_flight.flow, None, track))
        if answer is None and self._can_answer(in_flight.frame):
            answer, in_flight.reason = self._answer(track, in_flight.reason), ""
        if in_flight.reason:
            # Raised here, where no array is in scope and no other error is chained: a printed traceback shows
            # nothing of the frame.
            raise FrameDropped(in_flight.reason)
        values = {name: value[0, ...] for name, value in answer[0].items()}
        return PerturbedFrame(in_flight.frame.index, values, _PIPELINE, drawn=answer[1][0])

    def perturb(self, frame: RawFrame) -> PerturbedFrame:
        """One ``RawFrame`` in, its ``PerturbedFrame`` out. Every error is a ``FrameDropped``."""
        in_flight = self.preprocess(frame)
        self.infer(in_flight)
        return self.postprocess(in_flight)

    def perturb_batch(self, frames: List[RawFrame]) -> List[Union[PerturbedFrame, str]]:
        """For each frame, in order, its ``PerturbedFrame`` or the reason it was dropped.

        The frames go through the stages together; if that fails, one by one, so that only the bad ones are dropped.
        """
        outputs, reason = self._attempt(frames) if frames else ({}, None)
        if reason is None:
            indices = [frame.index for frame in frames]
            drawn = self._drawn(len(frames))
            return [*PerturbedFrame.of_rows(indices, outputs, _PIPELINE, drawn=drawn)] if frames else []
        if len(frames) == 1:
            return [reason]
        return [self.perturb_batch([frame])[0] for frame in frames]

    def draw_ahead(self) -> None:
        """Make the draws of the next frames now, when nothing waits for them."""
        for pool in self.pools:
            pool.fill()

    def forget(self, track: int) -> None:
        """Forget an ended track of the stream."""
        self.track_memory.forget(track)

    def restart(self) -> None:
        """Forget all tracks, or the period, of the stream."""
        self.track_memory.restart()

    def _drawn(self, rows: int) -> List[int]:
        """The names of the draws of the last ``rows``, where draws are charged and not releases; else 0."""
        return self.track_memory.drawn[:rows] if self._names_draws else [0] * rows

    def close(self) -> None:
        """Close the interpreters."""
        for runner in self.runners.values():
            runner.close()

    def _preprocess(self, x: np.ndarray, draws: Optional[Draws] = None) -> Flow:
        """Check samples (n, ...) and run the stages before the model."""
        if x.shape[1:] != self.shape or x.ndim != len(self.shape) + 1:
            raise FrameDropped("shape")
        if x.dtype != self.dtype:
            raise FrameDropped("dtype")
        # A value beyond its bounds is clipped where a promise is made; a NaN has no side, and gets a fixed answer.
        if self.dtype.kind == "f" and (np.isnan(x).any() if self.promises else not np.isfinite(x).all()):
            raise FrameDropped("not-finite")
        flow = Flow({self.input: x})
        self._run_stages(self._before, flow, draws)
        return flow

    def _infer(self, flow: Flow, draws: Optional[Draws], tracks: Optional[Iterable[int]]) -> None:
        if self.promises:
            self._run_stages(self._middle, flow, draws)  # without a hold stage (compile_stages)
            return
        self.track_memory.begin(None if tracks is None else list(tracks))
        self._run_stages(self._middle, flow, draws)
        self.track_memory.commit()

    def _end(
        self, stages: List[Step], flow: Flow, draws: Optional[Draws], tracks: Optional[Iterable[int]]
    ) -> Tuple[Dict[str, np.ndarray], List[int]]:
        """Run the last stages: the checked outputs (n, ...), and the names of their draws."""
        if not self.promises:
            self._run_stages(stages, flow, draws)
            return self._checked(flow), [0] * len(flow[self.input])
        with self._ending:
            self.track_memory.begin(None if tracks is None else list(tracks))
            self._run_stages(stages, flow, draws)
            out = self._checked(flow)
            self.track_memory.commit()
            return out, self._drawn(len(flow[self.input]))

    def _checked(self, flow: Flow) -> Dict[str, np.ndarray]:
        """The outputs, of the dtypes and shapes of the manifest; raises ``FrameDropped``."""
        n = len(flow[self.input])
        out = {}
        for name, tensor, shape, dtype in self._outputs:
            value = flow[tensor]
            if value.dtype != dtype:
                raise FrameDropped("output-dtype")
            if value.shape != (n,) + shape:
                raise FrameDropped("output-shape")
            out[name] = value
        return out

    def _run_stages(self, stages: List[Step], flow: Flow, draws: Optional[Draws]) -> None:
        for stage, drawn in stages:
            if drawn and draws is not None:
                flow[drawn[0]] = _recorded_draw(draws, drawn[0], (len(flow[self.input]),) + drawn[1])
            else:
                stage(flow)

    def _attempt(self, frames: List[RawFrame]) -> Tuple[Dict[str, np.ndarray], Optional[str]]:
        """The outputs of some frames, or the reason for none. Raises nothing: an error could hold a frame."""
        try:
            first = frames[0]._data
            # Stacking would silently convert samples of different types to one of them.
            if any(frame._data.dtype != first.dtype for frame in frames):
                return {}, "dtype"
            x = first[None] if len(frames) == 1 else np.stack([frame._data for frame in frames])
            outputs = self._run(x, None, [frame.track for frame in frames])
            self._count_clipped(x)
            return outputs, None
        except FrameDropped as drop:
            reason = drop.reason
        except Exception:
            reason = "error"
        if len(frames) == 1 and self._can_answer(frames[0]):
            return self._answer([frames[0].track], reason)[0], None
        return {}, reason

    def _can_answer(self, frame: RawFrame) -> bool:
        """Whether this is a valid reading of a promise, which gets a report although it failed."""
        return self._fixed is not None and not self.no_reading(frame)

    def _answer(self, tracks: List[int], reason: str) -> Tuple[Dict[str, np.ndarray], List[int]]:
        """The outputs (1, ...) for a reading that failed, and the name of their draws. Raises nothing."""
        self.answered[reason] += 1
        fixed: Any = self._fixed
        try:
            return self._end(self._noise, fixed.flow(), None, tracks)
        except Exception:  # what comes after a report failed: that is of the report, and no more of the reading
            self.track_memory.begin(tracks)  # of no kept draw
            return fixed.outputs, [0]

    def _count_clipped(self, x: np.ndarray) -> None:
        if self._bounds is not None and self._bounds[0] is not None:
            low, high = self._bounds
            self.clipped += int(((x < low) | (x > high)).reshape(len(x), -1).any(axis=1).sum())


class InFlight(object):
    """One frame between the parts of a pipeline: ``frame``, its ``flow``, and the ``reason`` if it is dropped."""

    __slots__ = ("flow", "frame", "reason")

    def __init__(self, frame: RawFrame) -> None:
        self.frame = frame
        self.flow = Flow({})
        self.reason = ""

    def erase(self) -> None:
        """Overwrite the frame and everything computed from it with zeros, where the memory is writable."""
        self.flow.erase()
        self.frame.erase()

    def step(self, part: Callable[[], Any]) -> Any:
        """Run one part, unless the frame was dropped before. Raises nothing: an error could hold the frame."""
        if self.reason:
            return None
        try:
            return part()
        except FrameDropped as drop:
            self.reason = drop.reason
        except Exception:
            self.reason = "error"
        return None


def _recorded_draw(draws: Draws, name: str, shape: Tuple[int, ...]) -> np.ndarray:
    """Recorded draws in place of the generator's: only for the self-test and tests."""
    if name not in draws or draws[name].shape != shape:
        raise BadInput("expected recorded draws {!r} of shape {}".format(name, shape))
    return draws[name]


def load_pipeline(
    manifest: Manifest,
    members: Mapping[str, bytes],
    artefact: str,
    *,
    backend: str = "auto",
    threads: int = 1,
    kernels: str = "production",
    device: str = "cpu",
) -> Pipeline:
    """A ``Pipeline`` from a manifest and its member files ``{name: bytes}``, on the interpreters of this machine.

    ``artefact`` names a variant that every model has (``tflite-int8``); without models it is ignored. The bytes must be
    verified: ``Perturber.open`` and the workstation's export folder do that. Raises ``BadInput`` if a model has no
    such artefact, ``DeviceFailed`` if nothing installed can run it on ``device``.
    """
    tables = {name: read_array(members, table) for name, table in manifest.tables.items()}
    runners = {}
    for name, model in manifest.models.items():
        if artefact not in model.artefacts:
            raise BadInput(
                "the model {!r} has no artefact {!r}; it has {}".format(
                    name, artefact, ", ".join(sorted(model.artefacts))
                )
            )
        chosen = model.artefacts[artefact]
        runners[name] = open_backend(
            chosen.format,
            members[chosen.file],
            chosen.entry,
            backend=backend,
            threads=threads,
            kernels=kernels,
            device=device,
        )
    pipeline = Pipeline(manifest, tables=tables, runners=runners)
    golden = manifest.golden
    # While a folder is being exported there are none yet; where they do not run, the self-test says so.
    if manifest.spending is not None and golden.input in members:
        draws = {name: numbers_in(members, file)[:1] for name, file in golden.draws.items()}
        with contextlib.suppress(FrameDropped):
            pipeline.prepare(numbers_in(members, golden.input)[:1], draws)
    return pipeline


def numbers_in(members: Mapping[str, bytes], name: str) -> np.ndarray:
    """The array of one ``.npy`` member. Raises ``BundleRefused`` (``bad-value``) for what is no rows of numbers."""
    try:
        array = np.lib.format.read_array(io.BytesIO(members[name]), allow_pickle=False)
        if array.dtype.kind in "biuf" and array.ndim:
            return array
    except Exception:  # a header is read as Python's literals, and fails in many ways
        array = None
    raise BundleRefused("bad-value", "The bundle's {} is no array of numbers. Export and seal it again.".format(name))


def read_array(members: Mapping[str, bytes], table: Table) -> np.ndarray:
    """The array of one ``.npy`` member, of the shape and dtype that ``table`` states; read-only."""
    array = numbers_in(members, table.file)
    if array.shape != table.shape or array.dtype != np.dtype(table.dtype):
        raise BadInput(
            "expected {} of {} {}; got {} {}".format(
                table.file, table.dtype, list(table.shape), array.dtype, list(array.shape)
            )
        )
    array.setflags(write=False)
    return array
