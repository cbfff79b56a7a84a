"""Source to perturber to sink, counting the frames in, the frames out and the drops by reason."""

import collections
import signal
import threading
import time
from typing import Any, Callable, Dict, List, NamedTuple, Optional

from edgeveil.edge_runtime.errors import SPENT, BadInput, FrameDropped, PrivacyStop
from edgeveil.edge_runtime.frames import RawFrame
from edgeveil.edge_runtime.manifest.manifest import AHEAD

Summary = NamedTuple(
    "Summary",
    [
        ("frames_in", int),  # that the source gave or failed to give
        ("frames_out", int),  # that the sink took
        ("dropped", Dict[str, int]),  # the others, by reason
        ("seconds", float),
        ("stopped", str),  # "end" of the source, or "interrupted"
    ],
)


def perturb_all(
    source: Any,
    perturber: Any,
    emit: Callable[[Any], None],
    *,
    capture: Any = None,
    interrupted: Callable[[], bool] = lambda: False,
    progress: Callable[[int, int], None] = lambda *_: None,
    emit_set: Optional[Callable[[List[Any]], None]] = None,
    report: Callable[[int, str], None] = lambda *_: None,
    pay: Callable[[List[int], int, List[int]], List[bool]] = lambda tracks, _more, _drawn: [True] * len(tracks),
    clock: Callable[[], float] = time.perf_counter,
) -> Summary:
    """Perturb every frame of ``source`` and pass it to ``emit``, until the source ends or ``interrupted()`` is true.

    A frame that cannot be read or perturbed is counted and dropped. ``capture`` makes the pipeline's frames of the
    source's (``crops.Capture``); None if they are the same. A frame counts as out if any of its crops is, and as
    dropped for ``nobody`` if it has none. For a source in blocks, ``report`` is called with the number of each refused
    frame and its problem, and all that leaves of a block goes to ``emit_set``, if there is one. ``pay(tracks, more,
    drawn)`` says which of these releases are paid for (``ledger.payer.Payer.pay``); the others are dropped as
    ``budget-spent``.
    Other errors of ``source``, ``perturber``, ``pay`` or ``emit`` end the loop: ``PrivacyStop``, ``DeviceFailed``,
    ``LedgerUnfit``.
    """
    source.total = perturber.promises
    start, out = clock(), 0
    dropped: Dict[str, int] = collections.Counter()
    stopped = "end"

    def lost(number: int, reason: str, problem: str) -> None:
        dropped[reason] += 1
        report(number, problem)

    def one(frame: RawFrame) -> None:
        """Perturb one sensor frame, which may give several frames for the pipeline, or none."""
        nonlocal out
        emitted, reason = 0, "nobody"
        for slot, crop in capture.frames(frame) if capture else [(0, frame)]:
            try:
                perturbed = perturber.perturb(crop)
            except FrameDropped as drop:
                reason = drop.reason
                continue
            # Of a source of unknown length, as many may follow as are ever paid for ahead.
            more = AHEAD if source.size is None else source.size - frame.index - 1
            if not pay([crop.track], more, [perturbed.drawn])[0]:
                reason = SPENT
                continue
            emit(perturbed.at(frame.index, None, slot) if slot else perturbed)
            emitted += 1
        for track in capture.ended if capture else ():
            perturber.forget(track)
        if emitted:
            out += 1
        else:
            dropped[reason] += 1

    while source.blocks:
        if interrupted():
            stopped = "interrupted"
            break
        frames = source.next_block()
        for number, problem in source.refused():
            lost(number, "unreadable", problem)
        if frames is None:
            break
        if capture:
            for frame in frames:
                one(frame)
        else:
            given = perturber.perturb_batch(frames, on_drop=lambda f, r: lost(f.index, r, "it was dropped: " + r))
            tracks = {frame.index: frame.track for frame in frames}
            of_each = [tracks[perturbed.index] for perturbed in given]
            paid = pay(of_each, 0, [perturbed.drawn for perturbed in given])
            leave = [perturbed for perturbed, may in zip(given, paid) if may]
            if emit_set is not None:
                emit_set(leave)
            else:
                for perturbed in leave:
                    emit(perturbed)
            out += len(leave)
            if len(leave) < len(given):
                dropped[SPENT] += len(given) - len(leave)
        progress(out + sum(dropped.values()), out)
    while not source.blocks:
        if interrupted():
            stopped = "interrupted"
            break
        try:
            frame = source.next()
            if frame is None:
                break
            one(frame)
        except FrameDropped as drop:
            dropped[drop.reason] += 1
            continue
        progress(out + sum(dropped.values()), out)
    return Summary(out + sum(dropped.values()), out, dict(sorted(dropped.items())), clock() - start, stopped)


def refusal_reporter(strict: bool, say: Callable[[str], Any]) -> Callable[[int, str], None]:
    """A ``report`` for ``perturb_all``: a refused line ends a strict run, or ``say`` gets its number, not its text."""

    def report(number: int, problem: str) -> None:
        if strict:
            raise BadInput("line {}: {}. Correct it, or leave out --strict.".format(number, problem))
        say("line {} refused: {}".format(number, problem))

    return report


def run(source: Any, perturber: Any, sink: Any, **options: Any) -> Summary:
    """``perturb_all`` into a sink that is always closed, so that no perturbed frame is lost.

    A first Ctrl-C (or SIGTERM) finishes the current frame and ends the loop; a second one breaks it off, and the sink
    still keeps what it has. After a ``PrivacyStop`` the sink discards it instead: it may be raw.
    """
    with _Interrupt() as interrupt:
        try:
            summary = perturb_all(
                source, perturber, sink.write, emit_set=sink.write_set, interrupted=interrupt.came, **options
            )
        except PrivacyStop:
            interrupt.hold_off()
            sink.discard()
            raise
        except BaseException:
            interrupt.hold_off()
            sink.close()
            raise
        interrupt.hold_off()
        sink.close()
    return summary


class _Interrupt(object):
    """SIGINT and SIGTERM set a mark the first time, and have their usual effect the second time."""

    def __init__(self) -> None:
        self._came = False
        self._old: Dict[int, Any] = {}

    def came(self) -> bool:
        return self._came

    def hold_off(self) -> None:
        """Ignore both from now on: the sink must be able to finish."""
        for number in self._old:
            signal.signal(number, signal.SIG_IGN)

    def _mark(self, number: int, _frame: Any) -> None:
        self._came = True
        signal.signal(number, self._old[number])

    def __enter__(self) -> "_Interrupt":
        # Only the main thread may set handlers; in other threads the caller's program handles signals.
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._old[number] = signal.signal(number, self._mark)
        return self

    def __exit__(self, *_: Any) -> None:
        for number, handler in self._old.items():
            signal.signal(number, handler)
