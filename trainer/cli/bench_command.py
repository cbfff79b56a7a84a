"""``edgeveil bench``: time a bundle in turns with other networks on this machine, or on a board."""

from __future__ import annotations

import json
import sys
import tempfile
from argparse import ArgumentTypeError
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from edgeveil.devices.flashing.connection import Connection
from edgeveil.edge_runtime.device import CPU, check_device
from edgeveil.edge_runtime.errors import BadInput, DeviceFailed, LimitNotMet
from edgeveil.trainer.cli.common import Bundle, Device, Json, OptionalOn, board_command, verified_bundle

if TYPE_CHECKING:
    from edgeveil.devices.flashing.board import Board

app = typer.Typer()


@board_command(
    app,
    "Examples: edgeveil bench mnist.veil --trust trust --against other.tflite; "
    "edgeveil bench mnist.veil --on ssh://pi@edgepi --for raspberry-pi-cpu --out result.json",
)
def bench(
    connection: Connection,
    bundle: Bundle,
    trust: Annotated[Path | None, typer.Option(help="Folder of the public keys that may sign; with --against.")] = None,
    against: Annotated[
        list[str] | None,
        typer.Option(help="A .tflite or .onnx file to time in turns with the bundle; may be repeated."),
    ] = None,
    on: OptionalOn = None,
    profile: Annotated[str | None, typer.Option("--for", help="The board's profile: where its sensors are.")] = None,
    artefact: Annotated[str, typer.Option(help="With --on: which artefact (auto: the preferred).")] = "auto",
    device: Device = CPU,
    publish: Annotated[bool, typer.Option("--publish", help="With --on: 600 s, long enough to publish.")] = False,
    sustained: Annotated[str | None, typer.Option(help="With --on: duration of the benchmark, such as 30m.")] = None,
    pace: Annotated[float | None, typer.Option(help="With --on: frames per second.")] = None,
    rounds: Annotated[int, typer.Option(help="With --against: rounds.")] = 15,
    seconds: Annotated[float, typer.Option(help="With --against: seconds per turn.")] = 0.2,
    threads: Annotated[int, typer.Option(help="Threads of the interpreter.")] = 1,
    out: Annotated[Path | None, typer.Option(help="Also write the JSON document to this file.")] = None,
    as_json: Json = False,
) -> None:
    """Time a bundle in turns with other networks, or on a board. edgeveil-edge bench times it alone, here."""
    from edgeveil.edge_runtime.util.atomic import write_atomic

    if bool(against) == bool(on):
        raise BadInput("Exactly one of --against (other networks, on this machine) and --on (a board) was expected.")
    if on:
        more = ["--threads", str(threads), "--artefact", artefact]
        more += ["--device", check_device(device)] if device != CPU else []
        more += ["--publish"] if publish else []
        more += ["--sustained", sustained] if sustained else []
        more += ["--pace", str(pace)] if pace is not None else []
        limit_s = 900.0 + (600 if publish else 0) + (_seconds(sustained) if sustained else 0)
        with connection.open(on) as board:
            document = on_board(board, bundle, profile, more, limit_s)
    else:
        if device != CPU:
            raise BadInput("--device says what runs a bundle on a board: name the board with --on.")
        from edgeveil.trainer import benchmark

        benchmark.bench_python()  # raises before anything is built for it
        with tempfile.TemporaryDirectory() as name:
            files = benchmark.bundle_files(verified_bundle(bundle, trust), Path(name))
            files += [benchmark.model_file(Path(one)) for one in against or ()]
            document = benchmark.run(files, rounds=rounds, seconds=seconds, threads=threads)
    text = json.dumps(document, indent=1, sort_keys=True) + "\n"
    if out is not None:
        write_atomic(out, text.encode())
    if as_json:
        sys.stdout.write(text)
    else:
        print("\n".join(_lines(document)))
    # Ratios of networks timed in turns are valid on a busy machine too, with wider intervals.
    if document.get("kind") != "side-by-side" and document["verdict"] == "INVALID":
        raise LimitNotMet(f"these figures are INVALID: {'; '.join(document['reasons'])}")


def on_board(board: Board, bundle: Path, profile: str | None, more: list[str], limit_s: float) -> dict[str, Any]:
    """Send the bundle to a board, time it with the board's runtime, and remove it; the document of that benchmark."""
    from edgeveil.devices import profiles
    from edgeveil.devices.flashing.board import runtime_output
    from edgeveil.devices.remote import remote_workspace
    from edgeveil.edge_runtime.bench.protocol import SCHEMA

    known = profiles.load(profile) if profile else None
    sensors = dict(known.sensors) if known else {}
    board.environment = dict(known.service.environment) if known else {}
    try:
        data = bundle.read_bytes()
    except OSError as error:
        raise BadInput(f"A bundle was expected in {bundle}: {error.strerror}.") from None
    arguments = ["--trust", f"{board.root}/trust", *more]
    arguments += ["--sensors", json.dumps(sensors)] if sensors else []
    with remote_workspace(board, "bench", size_bytes=len(data)) as workspace:
        done = board.edge("bench", workspace.put_bundle(data), *arguments, "--json", timeout_s=limit_s)
    printed = runtime_output(done, accepted=(0, 3))
    try:
        document = json.loads(printed)
    except ValueError:
        raise DeviceFailed(f"The board did not answer with a result: {done.last_line()}") from None
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        raise DeviceFailed(
            f"A result of schema {SCHEMA} was expected; the board's runtime is of another version: flash it again."
        )
    return document


def _seconds(text: str) -> float:
    from edgeveil.edge_runtime.cli.bundles import duration

    try:
        return duration(text)
    except ArgumentTypeError as error:
        raise BadInput(f"--sustained: {error}.") from None


def _lines(document: dict[str, Any]) -> list[str]:
    from edgeveil.edge_runtime.cli.bundles import bench_lines

    if document.get("kind") != "side-by-side":
        return list(bench_lines(document))
    lines = []
    for row in document["rows"]:
        r = row.get("ratio")
        times = f", {r['median']:.2f} x {r['to']} ({r['low']:.2f} to {r['high']:.2f})" if r else ""
        lines.append(f"{row['name']:16} {row['artefact']:15} {row['backend']:15} {row['p50_ms']:9.3f} ms{times}")
    lines += [f"{r['name']} {r['artefact']} {r['backend']}: REFUSED, {r['refused']}" for r in document["refused"]]
    if document["reasons"]:
        lines.append(f"milliseconds INVALID ({'; '.join(document['reasons'])}); the ratios, taken in turns, are valid")
    return lines
