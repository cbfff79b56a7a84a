"""``edgeveil-edge run`` and ``inside``: from a source to sinks, as one process for files and as a service otherwise."""

import argparse
import contextlib
import ipaddress
import os
import sys
from typing import Any, Callable, Dict, Iterator, Optional

from edgeveil.edge_runtime import config, ext
from edgeveil.edge_runtime.cli.options import Document, add_bundle, add_command, add_json, add_setting, print_document
from edgeveil.edge_runtime.config import Settings
from edgeveil.edge_runtime.errors import SPENT, BadInput, DeviceFailed, LimitNotMet
from edgeveil.edge_runtime.kinds import SINKS, fact_of, needs_daemon
from edgeveil.edge_runtime.manifest.manifest import Manifest, expected
from edgeveil.edge_runtime.sandbox import hardening
from edgeveil.edge_runtime.util.validate import counted

# Reasons for which a frame may rightly not come out: no one in it, the end, a newer one, or no budget for it.
_USUAL = ("nobody", "stopped", "newer-frame", "newer-set", SPENT)
_INSIDE = (
    "source",
    "artefact",
    "backend",
    "device",
    "fps",
    "max-latency",
    "recheck",
    "hang-after",
    "inside-at",
    "frames-at",
)


def add_commands(commands: Any) -> None:
    """Add them to the parser of ``edgeveil-edge``."""
    run = add_command(
        commands,
        "run",
        _run,
        "perturb every frame of a source into sinks; with a live source or sink this is a service of two processes",
        "edgeveil-edge run demo.veil --trust trust --source npz:test.npz --sink npz:out.npz\n"
        "  edgeveil-edge run demo.veil --trust trust --source camera:0 --sink mqtts://broker/hall --log json",
    )
    add_bundle(run, optional=True)
    for name in config.SETTINGS:
        if name not in ("bundle", "trust"):
            add_setting(run, name)
    for old, new in config.RENAMED.items():
        run.add_argument("--" + old, nargs=0, action=_Renamed, new="--" + new, help=argparse.SUPPRESS)
    run.add_argument(
        "--config", metavar="FILE", help="settings by the names of these flags ({})".format(config.DEFAULT_PATH)
    )
    add_json(run)
    inside = add_command(
        commands,
        "inside",
        _inside,
        "run only the process that opens the camera, as a systemd unit of its own; run --inside-at DIR is the other",
        "edgeveil-edge inside --config /etc/edgeveil/edge.json --inside-at /run/edgeveil",
    )
    add_bundle(inside, optional=True)
    for name in _INSIDE:
        add_setting(inside, name)
    inside.add_argument("--config", metavar="FILE", help="settings ({})".format(config.DEFAULT_PATH))


class _Renamed(argparse.Action):
    """A flag of an earlier version: refused, with the new name."""

    def __init__(self, *arguments: Any, new: str, **options: Any) -> None:
        super(_Renamed, self).__init__(*arguments, **options)
        self._new = new

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        parser.error("{} is now called {}: give that one".format(self.option_strings[0], self._new))


def _run(arguments: argparse.Namespace) -> int:
    flags = vars(arguments)
    # Flags that give every required setting need no file.
    needed = any(not flags[name] for name in config.REQUIRED)
    settings = config.merged(flags, config.read(arguments.config) if arguments.config or needed else {})
    config.check_start(settings)
    for sink in settings.sink:
        _refuse_overwriting(settings, sink)
    if config.needs_service(settings):
        _refuse_root(settings)
        if settings.inside_at:  # else it starts the inside, perhaps as another user
            hardening.no_new_privileges()
        from edgeveil.edge_runtime.outside import service

        document = service.run(settings)
        code = document.pop("exit_code")
    else:
        document = _file_to_file(settings)
        code = 130 if document["stopped"] == "interrupted" else LimitNotMet.exit_code * (SPENT in document["dropped"])
    manifest = document.pop("manifest")
    file = sys.stderr if "csv:-" in settings.sink else sys.stdout
    print_document(document, _run_lines, as_json=arguments.json, file=file)
    failed = " ".join(_failures(document, manifest))
    if failed:
        raise DeviceFailed(failed)
    if code == LimitNotMet.exit_code:
        raise LimitNotMet(
            "the budget is spent: {} frames did not leave. edgeveil-edge ledger show {} says what was spent.".format(
                document["dropped"][SPENT], settings.ledger
            )
        )
    return code


def _refuse_root(settings: Settings) -> None:
    """One who takes over the process with the network has what its user has."""
    on_network = [one for one in settings.sink if not fact_of(SINKS, one, "file")]
    page = settings.health.partition("?")[0]
    with contextlib.suppress(ValueError):  # off, or no address, which is refused where it is opened
        on_network += [] if ipaddress.ip_address(page.rpartition(":")[0].strip("[]")).is_loopback else [page]
    if os.geteuid() == 0 and on_network and not settings.as_root:
        from edgeveil.edge_runtime.sinks.uri import without_secrets  # no code that sends in the inside

        raise BadInput(
            "expected another user than root for the process with the network, which sends to {}: start edgeveil-edge "
            "inside --inside-at DIR as root, and this with the same --inside-at as a user of its own "
            "(docs/how-to/flash-a-board.md), or give --as-root".format(without_secrets(on_network[0]))
        )


def _inside(arguments: argparse.Namespace) -> int:
    from edgeveil.edge_runtime.camera_address import on_network
    from edgeveil.edge_runtime.inside import process

    settings = config.merged(vars(arguments), dict({"sink": ["none"]}, **config.read(arguments.config)))
    if not settings.inside_at:
        raise BadInput("expected --inside-at DIR, the folder of the outside")
    by_another = on_network(settings.source) or needs_daemon(settings.source)
    if by_another != bool(settings.frames_at):
        raise BadInput(
            "expected --frames-at DIR with a camera on a network or of a daemon, where edgeveil-edge camera brings its "
            "frames, and with no other source"
        )
    return process.run_alone(config.for_inside(settings), settings.inside_at)


NO_COUNTS = "counts of people leave from a live source alone; --realtime plays a recording as one"


def _file_to_file(settings: Settings) -> Document:
    """One process, where nothing is on a network and no camera is open."""
    from edgeveil.edge_runtime.pipeline import batch
    from edgeveil.edge_runtime.pipeline.crops import Capture
    from edgeveil.edge_runtime.pipeline.perturber import Perturber
    from edgeveil.edge_runtime.sinks import open_sinks
    from edgeveil.edge_runtime.sources import open_source

    hardening.no_core_dumps()
    with Perturber.open(settings.bundle, trust=settings.trust, **config.choices(settings)) as perturber:
        manifest = perturber.manifest
        column, pay = settings.subject_column, _payment(settings, perturber)
        if manifest.counts is not None:
            sys.stderr.write("note: {}\n".format(NO_COUNTS))
        with open_source(settings.source, manifest.input, manifest.capture, subject_column=column) as source:
            sink = open_sinks(settings.sink, manifest.outputs, manifest)
            with _progress(source.size) as progress:
                report = batch.refusal_reporter(settings.strict, lambda text: sys.stderr.write(text + "\n"))
                capture = Capture(manifest) if manifest.capture else None
                summary = batch.run(source, perturber, sink, capture=capture, progress=progress, report=report, **pay)
        document = dict({"schema": 1}, **summary._asdict())
        document["sinks"] = {name: one._asdict() for name, one in sink.deliveries().items()}
        if manifest.spending is not None:
            document["clipped"] = perturber.pipeline.clipped
            document["answered"] = dict(sorted(perturber.pipeline.answered.items()))
        document.update(perturber.info, manifest=manifest)
    return document


def _payment(settings: Settings, perturber: Any) -> Dict[str, Any]:
    """The option of ``batch.run`` that pays for what is sent, where this bundle promises what that costs."""
    spending, by_subject = perturber.manifest.spending, settings.subject_column is not None
    if by_subject and (spending is None or spending.unit == "release"):
        raise BadInput(
            "expected a bundle that counts what it tells of each subject or track with --subject-column; this one {}. "
            "Leave the option and the column out.".format(
                "counts nothing" if spending is None else "counts every release alike"
            )
        )
    if perturber.price is None:
        return {}
    ledger = ext.book.Ledger(settings.ledger)
    return {"pay": ext.allowance.Payer(ledger, perturber.price, by_subject=by_subject).pay}


def _refuse_overwriting(settings: Settings, sink: str) -> None:
    """A sink at the path of the raw samples or of the bundle would take their place."""
    place = os.path.realpath(sink.partition(":")[2])
    for what, path in (("source", settings.source.partition(":")[2]), ("bundle", settings.bundle)):
        if path not in ("", "-") and os.path.realpath(path) == place:
            raise BadInput("expected a sink at another path than the {}; both are {}".format(what, path))


def _run_lines(document: Document) -> Iterator[str]:
    # A service that was stopped before its inside was ready does not know what it would have run.
    runs = " with {artefact} on {device}" if "artefact" in document else ""
    frames_in = counted(document["frames_in"], "frame")
    line = "{} in, {frames_out:,} out in {seconds:.2f} s" + runs + " ({stopped})"
    yield line.format(frames_in, **document)
    for reason, count in document["dropped"].items():
        yield "  dropped, {}: {}".format(reason, count)
    if document.get("clipped"):
        yield "  clipped: {} frames had a value beyond the public bounds, and count as at the bound".format(
            document["clipped"]
        )
    for reason, count in document.get("answered", {}).items():
        yield "  failed, {}: {} reports are of a fixed input in place of their reading".format(reason, count)
    for name, counts in document["sinks"].items():
        delivered = counted(counts["delivered"], "record")
        yield "  {}: {} delivered, {waiting:,} waiting, {lost:,} lost".format(name, delivered, **counts)


def _failures(document: Document, manifest: Manifest) -> Iterator[str]:
    """A sentence if no frame came out, and one for each sink that lost all it was given."""
    dropped = document["dropped"]
    if not document["frames_out"] and any(reason not in _USUAL for reason in dropped):
        reasons = ", ".join("{} {}".format(count, reason) for reason, count in dropped.items())
        wanted = expected(manifest.input, manifest.capture)
        yield (
            "no frame came out of {frames_in} ({}): this bundle takes frames of {dtype} {shape}; "
            "docs/reference/edge-runtime.md explains the reasons.".format(reasons, **dict(document, **wanted))
        )
    for name, counts in document["sinks"].items():
        if counts["lost"] and not counts["delivered"] and not counts["waiting"]:
            yield (
                "nothing arrived at {}, {} records are lost: check its address, and that something listens there; "
                "the option spool=DIR keeps records until it does.".format(name, counts["lost"])
            )


@contextlib.contextmanager
def _progress(size: Optional[int]) -> Iterator[Callable[[int, int], None]]:
    """A function that counts frames in a line on stderr, if stderr is a terminal; else one that does nothing."""
    shown = 0

    def show(frames_in: int, frames_out: int) -> None:
        nonlocal shown
        if frames_in - shown >= 100:
            shown = frames_in
            of = " of {}".format(size) if size else ""
            sys.stderr.write("\r{}{} frames in, {} out".format(frames_in, of, frames_out))

    try:
        yield show if sys.stderr.isatty() else lambda *_: None
    finally:
        if shown:
            sys.stderr.write("\n")
