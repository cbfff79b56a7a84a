"""The entry point to a bundle: verify it, run its self-test, then perturb frames."""

import collections
import os
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional, Union

from edgeveil.edge_runtime.device import CPU
from edgeveil.edge_runtime.errors import DeviceFailed, FrameDropped, PrivacyStop
from edgeveil.edge_runtime.frames import PerturbedFrame, RawFrame
from edgeveil.edge_runtime.pipeline.passthrough import PassthroughCheck
from edgeveil.edge_runtime.pipeline.pipeline import InFlight, Pipeline

if TYPE_CHECKING:
    from edgeveil.edge_runtime.ledger.book import Price


class Perturber(object):
    """A bundle, ready to perturb. Make it with ``Perturber.open``; use it as a context manager or ``close`` it.

    ``manifest`` is the verified manifest, ``artefact`` the artefact that runs (``"numpy"`` for a pipeline without
    models), ``info`` facts for reports, ``dropped`` the number of dropped frames by reason. ``price`` is what a release
    costs, where the bundle promises that, ``count_price`` what the counts of a period do: whoever passes them on
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
        from edgeveil.edge_runtime.backends.model_lint import check_all
        from edgeveil.edge_runtime.bundle.audit_scope import announce, current_place, is_audited
        from edgeveil.edge_runtime.bundle.reader import read_bundle
        from edgeveil.edge_runtime.bundle.trust import Trust
        from edgeveil.edge_runtime.bundle.trust_store import open_trust
        from edgeveil.edge_runtime.capture.detector_model import open_detector
        from edgeveil.edge_runtime.pipeline.choice import open_pipeline
        from edgeveil.edge_runtime.pipeline.self_test import self_test

        trust = trust if isinstance(trust, Trust) else open_trust(trust)
        verified = read_bundle(bundle, trust)
        check_all(verified.manifest.document, verified.members)
        chosen, pipeline = open_pipeline(verified, artefact, backend, threads, device)
        audited = is_audited(verified.manifest, verified.members, chosen, device, current_place())
        announce(verified, chosen, device, audited)
        try:
            if trust.policy is not None:
                trust.policy.check(verified.manifest, verified.members, chosen, device, current_place())
            worst = self_test(pipeline, verified.manifest, verified.members, chosen)
            detector = open_detector(verified.manifest, verified.members, threads)
        except BaseException:
            pipeline.close()
            raise
        one = counts = None
        if verified.manifest.spending is not None or verified.manifest.counts is not None:
            from edgeveil.edge_runtime.bundle.spend_limits import count_price_of, price_of

            one, counts = (price(verified.manifest, trust.policy) for price in (price_of, count_price_of))
        return cls(verified, pipeline, chosen, worst, device, audited, one, counts, detector)

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
        from edgeveil.edge_runtime.pipeline.self_test import self_test

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
