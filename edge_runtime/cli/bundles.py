"""``edgeveil-edge verify`` and ``bench``: check one bundle, and time it on this device."""

import argparse
from typing import TYPE_CHECKING, Any, Iterator

from edgeveil.edge_runtime import config
from edgeveil.edge_runtime.cli.options import Document, add_bundle, add_command, add_json, add_setting, print_document
from edgeveil.edge_runtime.errors import LimitNotMet

if TYPE_CHECKING:
    from edgeveil.edge_runtime.bench.protocol import Protocol
    from edgeveil.edge_runtime.pipeline.perturber import Perturber


def add_commands(commands: Any) -> None:
    """Add them to the parser of ``edgeveil-edge``."""
    verify = add_command(
        commands,
        "verify",
        _verify,
        "check a bundle's signature and every hash, then run its golden self-test",
        "edgeveil-edge verify demo.veil --trust trust",
    )
    add_bundle(verify)
    verify.add_argument("--signature-only", action="store_true", help="skip the self-test: no interpreter needed")
    _add_choices(verify)
    bench = add_command(
        commands,
        "bench",
        _bench,
        "time the artefact on synthetic frames",
        "edgeveil-edge bench demo.veil --trust trust --artefact tflite-int8 --json",
    )
    add_bundle(bench)
    bench.add_argument("--min-count", type=int, metavar="N", help="least number of frames (300; with --publish 1024)")
    bench.add_argument("--min-seconds", type=float, metavar="S", help="least time in seconds (2; with --publish 600)")
    bench.add_argument("--publish", action="store_true", help="long enough to publish: 1024 frames and 600 s")
    bench.add_argument(
        "--sustained", type=duration, metavar="TIME", help="run for this long, such as 30m, and read the sensors"
    )
    bench.add_argument("--pace", type=float, metavar="FPS", help="one frame every 1/FPS s, as a camera gives them")
    bench.add_argument("--sensors", metavar="JSON", help="where the board's sensors are: a JSON object or its file")
    bench.add_argument("--meter", metavar="CSV", help="samples of an external power meter: time_s, watts")
    _add_choices(bench)


def _add_choices(command: argparse.ArgumentParser) -> None:
    for name in config.CHOICES:
        add_setting(command, name)
    add_json(command)


def duration(text: str) -> float:
    """Seconds from 90, 90s, 30m or 2h."""
    units = {"s": 1, "m": 60, "h": 3600}
    try:
        seconds = float(text.rstrip("smh")) * units[text[-1] if text[-1:] in units else "s"]
    except ValueError:
        seconds = -1.0
    if not 0 < seconds < 1e6:
        raise argparse.ArgumentTypeError("expected a time such as 90s, 30m or 2h; got {!r}".format(text))
    return seconds


def _open(arguments: argparse.Namespace) -> "Perturber":
    from edgeveil.edge_runtime.pipeline.perturber import Perturber

    given = vars(arguments)
    choices = {name: config.value_of(name, given[name], {}) for name in config.CHOICES}
    return Perturber.open(arguments.bundle, trust=arguments.trust, **choices)


def _verify(arguments: argparse.Namespace) -> None:
    from edgeveil.edge_runtime.bundle.policy import announce
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
    print_document(dict(document, schema=1, verified=True), _verify_lines, as_json=arguments.json)


def _bench(arguments: argparse.Namespace) -> None:
    from edgeveil.edge_runtime.bench.protocol import bench

    protocol = _protocol(arguments)
    protocol.check()
    with _open(arguments) as perturber:
        document = bench(perturber, protocol)
    print_document(document, bench_lines, as_json=arguments.json)
    if document["verdict"] != "VALID":
        raise LimitNotMet("these figures are INVALID: {}".format("; ".join(document["reasons"])))


def _protocol(arguments: argparse.Namespace) -> "Protocol":
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


def _verify_lines(document: Document) -> Iterator[str]:
    yield "verified: {name}, signed by {key:.16}...".format(**document)
    if document["self_test"]:
        yield "self-test passed: {artefact} on {device} off by {self_test[max_abs]:g} at most".format(**document)


def bench_lines(document: Document) -> Iterator[str]:
    """The lines that show a bench result to people."""
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
    if document["power"]:
        yield "  power: {watts:.2f} W, {joules_a_frame:.3g} J a frame ({from})".format(**document["power"])
    else:
        yield "  power: not measured"
    yield "  {macs} MACs, {parameters} parameters, {peak_rss_bytes} bytes resident at most".format(**document)
    yield document["verdict"]
