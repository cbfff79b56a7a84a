"""The entry point to a bundle: verify it, run its self-test, then perturb frames."""

import collections
import os
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Mapping, Optional, Tuple, Union

import numpy as np

from edgeveil.edge_runtime.backends.select import NoBackend
from edgeveil.edge_runtime.bundle.reader import Bundle
from edgeveil.edge_runtime.device import CPU, NoDevice, check_device, forms, suits
from edgeveil.edge_runtime.errors import BadInput, DeviceFailed, FrameDropped, PrivacyStop
from edgeveil.edge_runtime.frames import PerturbedFrame, RawFrame
from edgeveil.edge_runtime.kinds import BACKENDS, backends
from edgeveil.edge_runtime.lut import gather
from edgeveil.edge_runtime.manifest.manifest import Manifest
from edgeveil.edge_runtime.manifest.schema import NO_MODEL
from edgeveil.edge_runtime.pipeline.pipeline import InFlight, Pipeline, load_pipeline
from edgeveil.edge_runtime.stages import preprocess

if TYPE_CHECKING:
    from edgeveil.edge_runtime.manifest.manifest import Price


# Detects a model that passes frames through unchanged: on opening by golden vectors, later by 30 frames in a row.
#
# Never by a single frame: it may happen to be a fixed point of the model, and dropping it would reveal that.


RUN = 30  # unchanged frames in a row that stop everything


class PassthroughCheck(object):
    """Compares outputs with those of the identity, and counts how many in a row were equal.

    A sample of an integer type counts as unchanged when all values equal the identity's; one of a float type when all
    are within half a step of 1/255 of its range, so that rounding does not hide it. A constant sample (a blank picture)
    proves nothing. Where the manifest has ``identity_allowed``, or no output of kind frame, nothing is checked.
    """

    def __init__(self, manifest: Manifest) -> None:
        source = manifest.input
        frames = [output.name for output in manifest.outputs if output.kind == "frame"]
        self._name = None if manifest.perturber.identity_allowed or not frames else frames[0]
        self._in_a_row = 0
        if self._name is None:
            return
        unit = preprocess.to_unit(source.dtype, source.low, source.high)
        raw = preprocess.to_raw(source.dtype, source.low, source.high)
        self._same = lambda data: raw(unit(data))
        if source.dtype == "uint8" and not (np.ndim(source.low) or np.ndim(source.high)):
            self._same = gather(self._same(np.arange(256, dtype=np.uint8)))
        span = np.asarray(source.high, np.float64) - np.asarray(source.low, np.float64)
        self._slack = 0.0 if np.dtype(source.dtype).kind in "iu" else span / 510

    def unchanged(self, data: np.ndarray, out: np.ndarray) -> bool:
        """Whether ``out`` is the identity's output for the sample ``data``, and ``data`` is not constant."""
        if data.ndim == 3:
            # One row is nearly always enough, and costs little.
            row = slice(len(data) // 2, len(data) // 2 + 1)
            if not self._equal(self._same(data[row]), out[row]):
                return False
        same = self._same(data)
        return self._equal(same, out) and bool(same.min() != same.max())

    def _equal(self, same: np.ndarray, out: np.ndarray) -> bool:
        return same.shape == out.shape and bool(self._close(same, out).all())

    def _close(self, same: np.ndarray, out: np.ndarray) -> np.ndarray:
        """Which values are the identity's."""
        if np.ndim(self._slack) or self._slack:
            return np.asarray(np.abs(same.astype(np.float64) - out) <= self._slack)
        return np.asarray(same == out)

    def check_golden(self, x: np.ndarray, outputs: Mapping[str, np.ndarray]) -> None:
        """Check golden inputs (n, ...) and outputs; raises ``PrivacyStop`` if one is unchanged or all are constant."""
        if self._name is None:
            return
        if any(self.unchanged(data, out) for data, out in zip(x, outputs[self._name])):
            raise PrivacyStop(
                "a golden vector came out as it went in: this model lets raw data through, and its manifest does not "
                "allow that. Do not use the bundle; tell its maker."
            )
        if all(data.min() == data.max() for data in x):
            raise PrivacyStop(
                "every golden vector is constant, so the self-test cannot tell whether raw data passes through. "
                "Do not use the bundle; tell its maker."
            )

    def watch(self, frame: RawFrame, perturbed: PerturbedFrame) -> None:
        """Check one frame before it is emitted; raises ``PrivacyStop`` from the 30th unchanged one in a row."""
        if self._name is not None and self._in_a_row < RUN:
            self._count(frame._data, perturbed.outputs[self._name])
        self._stop_at_run()

    def _stop_at_run(self) -> None:
        # Raised here, where no array is in scope.
        if self._in_a_row >= RUN:
            raise PrivacyStop(
                "{} frames in a row came out as they went in: this model lets raw data through here. Stopped; do not "
                "use the bundle and tell its maker.".format(RUN)
            )

    def _count(self, data: np.ndarray, out: np.ndarray) -> None:
        if self.unchanged(data, out):
            self._in_a_row += 1
        elif self._in_a_row and data.min() != data.max():
            self._in_a_row = 0


class Perturber(object):
    """A bundle, ready to perturb. Make it with ``Perturber.open``; use it as a context manager or ``close`` it.

    ``manifest`` is the verified manifest, ``artefact`` the artefact that runs (``"numpy"`` for a pipeline without
    models), ``info`` facts for reports, ``dropped`` the number of dropped frames by reason. ``price`` is what a release
    costs, where the bundle promises that, ``count_price`` what the counts of a period do: anyone who passes them on
    charges it first (``ledger``). ``detector`` is the open network that finds the people who are counted, None where
    there is none.
    """

    def __init__(
        self,
        bundle: Any,
        pipeline: Pipeline,
        artefact: str,
        worst: float,
        device: str,
        audited: bool,
        price: "Optional[Price]" = None,
        count_price: "Optional[Price]" = None,
        detector: Optional[Any] = None,
    ) -> None:
        self.manifest, self.price, self.count_price = bundle.manifest, price, count_price
        self.artefact, self.detector, self.promises = artefact, detector, pipeline.promises
        self.pipeline = pipeline
        self.dropped: Dict[str, int] = collections.Counter()
        self.info = {
            "name": bundle.manifest.name,
            "manifest_sha256": bundle.manifest_sha256,
            "key": bundle.key,
            "development": bundle.development,
            "audited": audited,
            "identity_allowed": bundle.manifest.perturber.identity_allowed,
            "artefact": artefact,
            "device": device,
            "artefact_sha256": {name: m.artefacts[artefact].sha256 for name, m in bundle.manifest.models.items()},
            "backends": {name: runner.info() for name, runner in pipeline.runners.items()},
            "self_test": {"max_abs": worst},
        }
        self._passthrough = PassthroughCheck(bundle.manifest)
        self._golden = {name: data for name, data in bundle.members.items() if name.startswith("golden/")}

    def __repr__(self) -> str:
        return "<Perturber {}: {} on {}>".format(self.manifest.name, self.artefact, self.info["device"])

    @classmethod
    def open(
        cls,
        bundle: Union[str, "os.PathLike[str]", bytes],
        *,
        trust: Any,
        backend: str = "auto",
        artefact: str = "auto",
        threads: int = 1,
        device: str = CPU,
    ) -> "Perturber":
        """Verify a bundle and make it ready.

        ``bundle`` is a path (or the bundle's bytes), ``trust`` a folder of public keys (or a ``Trust``). ``artefact``
        and ``backend`` are names or ``"auto"``: the first artefact of the manifest's preference that an installed
        backend can open on ``device`` (a word of ``edge_runtime.device``). There is no fallback to another device.
        Raises ``BundleRefused`` before it takes any frame, ``BadInput`` for names that do not exist, ``DeviceFailed``
        if no backend can run it, the device is not available or the self-test fails, and ``PrivacyStop`` if raw data
        would pass through.
        """
        # Imported here, so that a program that only passes frames on does not load the verifier.
        from edgeveil.edge_runtime.bundle.opened import open_verified
        from edgeveil.edge_runtime.bundle.policy import announce, current_place, is_audited
        from edgeveil.edge_runtime.pipeline.camera_aid import open_detector
        from edgeveil.edge_runtime.pipeline.reconstruction import self_test

        opened = open_verified(bundle, trust)
        verified, policy = opened.bundle, opened.policy
        chosen, pipeline = open_pipeline(verified, artefact, backend, threads, device)
        audited = is_audited(verified.manifest, opened.audit, chosen, device, current_place())
        announce(verified, chosen, device, audited)
        try:
            if policy is not None:
                policy.check(verified.manifest, opened.audit, chosen, device, current_place())
            worst = self_test(pipeline, verified.manifest, verified.members, chosen)
            detector = open_detector(verified.manifest, verified.members, threads)
        except BaseException:
            pipeline.close()
            raise
        return cls(verified, pipeline, chosen, worst, device, audited, opened.price, opened.count_price, detector)

    def perturb(self, frame: RawFrame) -> PerturbedFrame:
        """One frame in, its perturbed frame out. Raises ``FrameDropped``, or ``PrivacyStop``: emit nothing more."""
        in_flight = self.preprocess(frame)
        self.infer(in_flight)
        return self.postprocess(in_flight)

    def preprocess(self, frame: RawFrame) -> InFlight:
        """The first of three parts of ``perturb``: before the model. Three threads may do one part each, in order."""
        return self.pipeline.preprocess(frame)

    def infer(self, in_flight: InFlight) -> None:
        """The second part: the model."""
        self.pipeline.infer(in_flight)

    def postprocess(self, in_flight: InFlight) -> PerturbedFrame:
        """The last part: after the model. Raises as ``perturb`` does."""
        try:
            out = self.pipeline.postprocess(in_flight)
        except FrameDropped as drop:
            self.dropped[drop.reason] += 1
            raise
        self._passthrough.watch(in_flight.frame, out)
        return out

    def no_reading(self, frame: RawFrame) -> str:
        """Why a frame has not the shape and type of the input; empty where it has."""
        return self.pipeline.no_reading(frame)

    def late(self, in_flight: InFlight) -> PerturbedFrame:
        """The report of a frame whose own is not there in time, where the bundle promises an epsilon."""
        return self.pipeline.late(in_flight)

    def perturb_batch(
        self, frames: List[RawFrame], on_drop: Callable[[RawFrame, str], None] = lambda *_: None
    ) -> List[PerturbedFrame]:
        """Several frames in, in order; dropped ones are missing from the result and counted in ``dropped``.

        ``on_drop`` is called with each dropped frame and its reason.
        """
        out = []
        for frame, result in zip(frames, self.pipeline.perturb_batch(frames)):
            if isinstance(result, PerturbedFrame):
                self._passthrough.watch(frame, result)
                out.append(result)
            else:
                self.dropped[result] += 1
                on_drop(frame, result)
        return out

    def recheck(self) -> None:
        """Repeat the golden self-test between two frames: kernels and memory must still compute the same.

        Raises ``PrivacyStop`` if they do not: then emit nothing more.
        """
        from edgeveil.edge_runtime.pipeline.reconstruction import self_test

        try:
            self_test(self.pipeline, self.manifest, self._golden, self.artefact)
            return
        except DeviceFailed as error:
            problem = str(error)
        raise PrivacyStop("stopped in the middle of a run: {}".format(problem))

    def draw_ahead(self) -> None:
        """Make the draws of the next frames now, between two of them."""
        self.pipeline.draw_ahead()

    def forget(self, track: int) -> None:
        """Forget an ended track of a stream; its number may then belong to another person."""
        self.pipeline.forget(track)

    def restart(self) -> None:
        """Forget all that is held of a stream: what comes next is of nothing that was before."""
        self.pipeline.restart()

    def close(self) -> None:
        """Close the interpreters."""
        self.pipeline.close()
        if self.detector is not None:
            self.detector.close()

    def __enter__(self) -> "Perturber":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


# Which artefact of a bundle runs here: the requested one, else the first preferred one that a backend can open.


def open_pipeline(bundle: Bundle, artefact: str, backend: str, threads: int, device: str) -> Tuple[str, Pipeline]:
    """The artefact that will run, and its pipeline. ``artefact`` and ``backend`` are names or ``"auto"``.

    Raises ``BadInput`` for names that do not exist or do not fit together, ``NoBackend`` or ``NoDevice`` if no
    candidate can be opened.
    """
    names = _candidates(bundle.manifest, artefact, backend, check_device(device))
    reasons: Dict[str, List[str]] = {}
    absent: Dict[str, List[str]] = {}
    for name in names:
        try:
            return name, load_pipeline(
                bundle.manifest, bundle.members, name, backend=backend, threads=threads, device=device
            )
        except NoDevice as error:
            absent.setdefault(str(error), []).append(name)
        except NoBackend as error:
            reasons.setdefault(str(error), []).append(name)
    if absent:
        raise NoDevice(_listed(absent))
    raise NoBackend("no requested artefact can run here. {}".format(_listed(reasons)))


def _listed(problems: Dict[str, List[str]]) -> str:
    """``NAME, NAME: problem; ...``."""
    return "; ".join("{}: {}".format(", ".join(names), problem) for problem, names in problems.items())


def _candidates(manifest: Manifest, artefact: str, backend: str, device: str) -> List[str]:
    """The artefacts to try, in order; at least one."""
    if backend != "auto" and BACKENDS.find(backend) is None:
        known = ", ".join(sorted(kind.name for kind in backends(every=True)))
        raise BadInput("expected a backend of {}, or auto; got {!r}".format(known, backend))
    models = list(manifest.models.values())
    if not models:
        if artefact not in ("auto", NO_MODEL):
            raise BadInput("this bundle has no models, so no artefact {!r}; leave it out".format(artefact))
        if device != CPU:
            raise BadInput("this bundle has no models for a device {}: leave --device out".format(device))
        return [NO_MODEL]
    if artefact != "auto":
        return [artefact]
    names = [name for name in manifest.preference if all(suits(model.artefacts[name], device) for model in models)]
    if not names:
        raise BadInput(
            "expected an artefact for the device {}; this bundle has {}. {}".format(
                device,
                ", ".join(manifest.preference),
                "Export with {} and seal that, or choose --device cpu".format(forms()[device].compiler)
                if device in forms()
                else "Export for the board that has it, or choose another device",
            )
        )
    if backend == "auto":
        return names
    runs = BACKENDS[backend].facts["formats"]
    fitting = [name for name in names if all(model.artefacts[name].format in runs for model in models)]
    if not fitting:
        raise BadInput(
            "no artefact of this bundle is for the backend {!r}; it has {}".format(backend, ", ".join(names))
        )
    return fitting
