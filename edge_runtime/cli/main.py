"""``edgeveil-edge``: run, verify and bench a bundle on the board. Thin: parse, call, print."""

import argparse
import json
import os
import sys

from edgeveil.edge_runtime import __version__, config
from edgeveil.edge_runtime.cli import keep_cli, releases
from edgeveil.edge_runtime.device import CPU
from edgeveil.edge_runtime.errors import BadInput, EdgeVeilError, LimitNotMet, PrivacyStop, describe

_EXIT_CODES = (
    "exit codes: 0 done, 2 your mistake, 3 figures not valid, 4 the device failed, 70 stopped, 130 interrupted"
)


def main(argv=None):
    """Run one command; returns its exit code."""
    try:
        arguments = _parser().parse_args(argv)
        return arguments.call(arguments) or 0
    except EdgeVeilError as error:
        sys.stderr.write("error: {}\n".format(error))
        return error.exit_code
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        return 130
    except BrokenPipeError:
        # Whoever read our output has gone; say nothing more, not even at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 4
    except Exception as error:
        # Its text could hold a value of a frame: name the place in the code and nothing else.
        sys.stderr.write("error: stopped by an unexpected {}; please report this line\n".format(describe(error)))
        return PrivacyStop.exit_code


def _parser():
    parser = argparse.ArgumentParser(
        prog="edgeveil-edge", description="Perturb frames on the device, with a signed bundle.", epilog=_EXIT_CODES
    )
    parser.add_argument("--version", action="version", version="edgeveil-edge " + __version__)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    commands.required = True

    run = _command(
        commands,
        "run",
        _run,
        "perturb every frame of a source into sinks; with a camera or a network it is a service",
        "edgeveil-edge run demo.veil --trust trust --source npz:test.npz --sink npz:out.npz\n"
        "  edgeveil-edge run demo.veil --trust trust --source camera:0 --sink mqtts://broker/hall --log json",
        optional=True,
    )
    for name, setting in config.SETTINGS.items():
        if name not in ("bundle", "trust"):
            _setting(run, name, setting)
    run.add_argument(
        "--config", metavar="FILE", help="settings by the names of these flags ({})".format(config.DEFAULT_PATH)
    )
    run.add_argument("--json", action="store_true", help="print one JSON document on stdout")

    inside = _command(
        commands,
        "inside",
        _inside,
        "the process with the camera alone, as a unit of its own; run --inside-at DIR is the other one",
        "edgeveil-edge inside --config /etc/edgeveil/edge.json --inside-at /run/edgeveil",
        optional=True,
    )
    for name in ("source", "artefact", "backend", "device", "fps", "max-latency", "recheck", "hang-after", "inside-at"):
        _setting(inside, name, config.SETTINGS[name])
    inside.add_argument("--config", metavar="FILE", help="settings ({})".format(config.DEFAULT_PATH))

    verify = _command(
        commands,
        "verify",
        _verify,
        "check a bundle's signature and every hash, then run its golden self-test",
        "edgeveil-edge verify demo.veil --trust trust",
    )
    verify.add_argument("--signature-only", action="store_true", help="leave the self-test out: no interpreter needed")
    _choices(verify)

    bench = _command(
        commands,
        "bench",
        _bench,
        "time the artefact on synthetic frames",
        "edgeveil-edge bench demo.veil --trust trust --artefact tflite-int8 --json",
    )
    bench.add_argument("--min-count", type=int, metavar="N", help="frames at least (300; with --publish 1024)")
    bench.add_argument("--min-seconds", type=float, metavar="S", help="seconds at least (2; with --publish 600)")
    bench.add_argument("--publish", action="store_true", help="long enough to publish: 1024 frames and 600 s")
    bench.add_argument("--sustained", type=duration, metavar="TIME", help="for so long, such as 30m, with the sensors")
    bench.add_argument("--pace", type=float, metavar="FPS", help="one frame every 1/FPS s, as a camera gives them")
    bench.add_argument("--sensors", metavar="JSON", help="where the board's sensors are: a JSON object or its file")
    bench.add_argument("--meter", metavar="CSV", help="an external power meter's readings: time_s, watts")
    _choices(bench)
    releases.add_commands(commands, _help_page)
    keep_cli.add_command(commands, _help_page)
    return parser


def _help_page(example):
    return {
        "epilog": "example:\n  {}\n\n{}".format(example, _EXIT_CODES),
        "formatter_class": argparse.RawDescriptionHelpFormatter,
    }


def _command(commands, name, call, summary, example, optional=False):
    command = commands.add_parser(
        name,
        help=summary,
        description=summary[0].upper() + summary[1:] + ".",
        **_help_page(example),
    )
    # What the configuration file may say as well need not be said here.
    command.add_argument("bundle", metavar="BUNDLE", help="the .veil file", nargs="?" if optional else None)
    command.add_argument(
        "--trust", required=not optional, metavar="DIR", help="folder of public keys that may sign (*.pub)"
    )
    command.set_defaults(call=call)
    return command


def _setting(command, name, setting):
    """A flag for a setting; None where it is not given, so that the configuration can say it."""
    options = {"default": None, "help": setting.help}
    if setting.kind is bool:
        options["action"] = "store_true"
    elif setting.kind is list:
        options.update(action="append", metavar=setting.metavar)
    else:
        options.update(type=setting.kind, metavar=setting.metavar)
    command.add_argument("--" + name, **options)


def _choices(command):
    command.add_argument("--artefact", default="auto", metavar="NAME", help="such as tflite-int8 (auto: the preferred)")
    command.add_argument("--backend", default="auto", metavar="NAME", help="such as onnxruntime (auto: the first here)")
    _setting(command, "device", config.SETTINGS["device"])
    command.add_argument("--threads", type=_threads, default=1, metavar="N", help="for the interpreter (1)")
    command.add_argument("--json", action="store_true", help="print one JSON document on stdout")


def _threads(text):
    count = int(text)
    if not 1 <= count <= 1024:
        raise argparse.ArgumentTypeError("expected 1 to 1024 threads; got {}".format(count))
    return count


def _open(arguments):
    from edgeveil.edge_runtime.pipeline.perturber import Perturber

    return Perturber.open(
        arguments.bundle,
        trust=arguments.trust,
        backend=arguments.backend,
        artefact=arguments.artefact,
        threads=arguments.threads,
        device=arguments.device or CPU,
    )


def _run(arguments):
    given = vars(arguments)
    flags = {name: given[name.replace("-", "_")] for name in config.SETTINGS}
    # Where the flags say all that must be said, there is nothing to read.
    needed = any(not flags[name] for name in ("bundle", "trust", "source", "sink"))
    file = config.read(arguments.config) if arguments.config or needed else {}
    settings = config.merged(flags, file)
    for sink in settings["sink"]:
        _refuse_same_place(settings["source"], sink)

    from edgeveil.edge_runtime.outside import service
    from edgeveil.edge_runtime.outside.settings import wanted

    if wanted(settings):
        document = service.run(settings)
        code = document.pop("exit_code")
    else:
        document = _file_to_file(settings)
        code = 130 if document["stopped"] == "interrupted" else 0
    _say(arguments, document, _run_lines, sys.stderr if "csv:-" in settings["sink"] else sys.stdout)
    return code


def _inside(arguments):
    from edgeveil.edge_runtime.camera_address import on_network
    from edgeveil.edge_runtime.inside import process as inside
    from edgeveil.edge_runtime.outside.settings import inside_settings

    given = vars(arguments)
    flags = {name: given.get(name.replace("-", "_")) for name in config.SETTINGS}
    settings = config.merged(flags, dict({"sink": ["none"]}, **config.read(arguments.config)))
    if not settings["inside-at"] or on_network(settings["source"]):
        raise BadInput("expected --inside-at DIR, where the outside is, and a source on this device")
    facts = dict(inside_settings(settings), retry=False, bundle=settings["bundle"])
    return inside.alone(facts, settings["inside-at"])


def _file_to_file(settings):
    """One process, as long as nothing of it is on a network or in a room."""
    from edgeveil.edge_runtime.capture.crops import Capture
    from edgeveil.edge_runtime.loop import batch
    from edgeveil.edge_runtime.pipeline.perturber import Perturber
    from edgeveil.edge_runtime.sandbox import hardening
    from edgeveil.edge_runtime.sinks import open_sink
    from edgeveil.edge_runtime.sources import open_source

    hardening.no_core_dumps()
    names = ("trust", "backend", "artefact", "threads", "device")
    with Perturber.open(settings["bundle"], **{name: settings[name] for name in names}) as perturber:
        manifest = perturber.manifest.document
        with open_source(settings["source"], manifest["input"], manifest["capture"]) as source:
            sink = open_sink(settings["sink"], manifest["outputs"], manifest)
            with _Progress(source.size) as progress:
                report = _reporter(settings["strict"])
                capture = Capture(perturber.manifest) if perturber.manifest.capture else None
                summary = batch.run(source, perturber, sink, capture=capture, progress=progress, report=report)
        document = dict({"schema": 1}, **summary._asdict())
        document.update(perturber.info)
    return document


def _verify(arguments):
    from edgeveil.edge_runtime.bundle.audit_scope import announce
    from edgeveil.edge_runtime.bundle.reader import read_bundle
    from edgeveil.edge_runtime.bundle.trust_store import open_trust

    if arguments.signature_only:
        bundle = read_bundle(arguments.bundle, open_trust(arguments.trust))
        announce(bundle)
        document = {
            "name": bundle.manifest.name,
            "manifest_sha256": bundle.manifest_sha256,
            "key": bundle.key,
            "development": bundle.development,
            "self_test": None,
        }
    else:
        with _open(arguments) as perturber:
            document = dict(perturber.info)
    _say(arguments, dict(document, schema=1, verified=True), _verify_lines)


def _bench(arguments):
    from edgeveil.edge_runtime.bench.protocol import bench

    protocol = _protocol(arguments)
    protocol.check()
    with _open(arguments) as perturber:
        document = bench(perturber, protocol)
    _say(arguments, document, bench_lines)
    if document["verdict"] != "VALID":
        raise LimitNotMet("these figures are INVALID: {}".format("; ".join(document["reasons"])))


def _protocol(arguments):
    from edgeveil.edge_runtime.bench import sensors
    from edgeveil.edge_runtime.bench.protocol import PUBLISH, Protocol

    usual = PUBLISH if arguments.publish else Protocol().minimum
    minimum = usual._replace(
        calls=usual.calls if arguments.min_count is None else arguments.min_count,
        seconds=usual.seconds if arguments.min_seconds is None else arguments.min_seconds,
    )
    if arguments.sustained is not None:
        minimum = minimum._replace(seconds=max(minimum.seconds, arguments.sustained))
    return Protocol(
        minimum=minimum,
        pace_fps=arguments.pace,
        sustained=arguments.sustained is not None,
        sensors=sensors.parse(arguments.sensors),
        meter=arguments.meter,
    )


def duration(text):
    """Seconds from 90, 90s, 30m or 2h."""
    units = {"s": 1, "m": 60, "h": 3600}
    try:
        seconds = float(text.rstrip("smh")) * units[text[-1] if text[-1:] in units else "s"]
    except ValueError:
        seconds = -1.0
    if not 0 < seconds < 1e6:
        raise argparse.ArgumentTypeError("expected a time such as 90s, 30m or 2h; got {!r}".format(text))
    return seconds


def _refuse_same_place(source, sink):
    """A sink in the source's place would write over the raw readings it is made from."""
    first, second = (text.partition(":")[2] for text in (source, sink))
    if first not in ("", "-") and os.path.realpath(first) == os.path.realpath(second):
        raise BadInput("expected a sink in another place than the source; both are {}".format(first))


def _reporter(strict):
    """What is said of a line that was refused, by its number; its text stays here."""

    def report(number, problem):
        if strict:
            raise BadInput("line {}: {}. Correct it, or leave out --strict.".format(number, problem))
        sys.stderr.write("line {} refused: {}\n".format(number, problem))

    return report


def _say(arguments, document, lines, file=None):
    file = file or sys.stdout
    if arguments.json:
        file.write(json.dumps(document, sort_keys=True, allow_nan=False) + "\n")
    else:
        file.write("\n".join(lines(document)) + "\n")
    file.flush()


def _run_lines(document):
    yield "{frames_in} frames in, {frames_out} out in {seconds:.2f} s with {artefact} on {device} ({stopped})".format(
        **document
    )
    for reason, count in document["dropped"].items():
        yield "  dropped, {}: {}".format(reason, count)


def _verify_lines(document):
    yield "verified: {name}, signed by {key:.16}...".format(**document)
    if document["self_test"]:
        yield "self-test passed: {artefact} on {device} off by {self_test[max_abs]:g} at most".format(**document)


def bench_lines(document):
    """A bench result for people."""
    yield "{artefact} on {backend} {backend_version}, {threads} thread(s): {fps:.0f} frames a second".format(**document)
    yield "  latency ms: p50 {p50:.3f}  p90 {p90:.3f}  p99 {p99:.3f}  p99.9 {p999:.3f}  max {max:.3f}".format(
        **document["latency_ms"]
    )
    yield "  first frame {first_ms:.3f} ms; drift {drift:+.1%}".format(**document)
    for one in document["ran_on"]:
        kinds = ", ".join("{} {}".format(count, kind) for kind, count in sorted(one["kernels"].items()))
        yield "  {model} ran on {device}: {}, says {said_by}".format(kinds, **one)
    if document["interpreter_ms"]:
        yield "  of which the interpreter: p50 {p50:.3f}".format(**document["interpreter_ms"])
    if document["whole_loop"]:
        yield "  whole loop, capture to emit: {fps:.0f} frames a second".format(**document["whole_loop"])
    if document["pace"]:
        yield "  at {fps:g} frames a second: {late} late ({late_share:.2%})".format(**document["pace"])
    power = document["power"]
    yield (
        "  power: {watts:.2f} W, {joules_a_frame:.3g} J a frame ({from})".format(**power)
        if power
        else ("  power: not measured")
    )
    yield "  {macs} MACs, {parameters} parameters, {peak_rss_bytes} bytes resident at most".format(**document)
    yield document["verdict"]


class _Progress(object):
    """A line on stderr that counts, where a person looks at it; nothing where none does."""

    def __init__(self, size):
        self._size = size
        self._shown = -1

    def __call__(self, frames_in, frames_out):
        if self._shown < 0 or frames_in - self._shown < 100:
            return
        self._shown = frames_in
        of = " of {}".format(self._size) if self._size else ""
        sys.stderr.write("\r{}{} frames in, {} out".format(frames_in, of, frames_out))

    def __enter__(self):
        if sys.stderr.isatty():
            self._shown = 0
        return self

    def __exit__(self, *_):
        if self._shown > 0:
            sys.stderr.write("\n")
