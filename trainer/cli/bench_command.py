"""A bundle and other model files, timed in turns on every interpreter of the ``bench`` environment."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from edgeveil import devices, edge_runtime
from edgeveil.edge_runtime.device import CPU, check_device
from edgeveil.edge_runtime.errors import BadInput, DeviceFailed, LimitNotMet
from edgeveil.trainer.cli.common import (
    AllowCommands,
    Bundle,
    Device,
    Json,
    OptionalOn,
    SiteBoard,
    board_command,
    board_profile,
    print_text,
    seconds_of,
    verified_bundle,
)
from edgeveil.trainer.cli.tree import BOARDS, app
from edgeveil.trainer.progress import say

if TYPE_CHECKING:
    from edgeveil.devices.flashing.board import Board
    from edgeveil.devices.profiles import Profile


ARTEFACTS = ("tflite-float32", "tflite-int8", "onnx-float32", "onnx-int8")
FORMATS = ("tflite", "onnx")
LIMIT_S = 3600
TURN_S = 0.2  # of one network in a round


def bench_python() -> Path:
    """The Python of the environment with all four interpreters. Raises ``BadInput`` if there is none."""
    named = os.environ.get("EDGEVEIL_BENCH_PYTHON")
    root = Path(__file__).resolve().parents[2]
    folder = Path(os.environ.get("EDGEVEIL_VENVS", root / ".venvs"))
    python = Path(named) if named else folder / "bench" / "bin" / "python"
    if not python.is_file():
        raise BadInput(
            f"An environment with all interpreters was expected at {python}. Make it with scripts/environments/bench, "
            "or name its python in EDGEVEIL_BENCH_PYTHON."
        )
    return python


def bundle_files(bundle: Any, folder: Path) -> list[dict[str, Any]]:
    """The artefacts of a verified bundle, written to ``folder``. Raises ``BadInput`` if it has several models."""
    models = bundle.manifest.models
    if len(models) != 1:
        raise BadInput(f"A bundle with one network was expected for a comparison; this one has {len(models)}.")
    (model,) = models.values()
    files = []
    for artefact, entry in model.artefacts.items():
        if entry.format in FORMATS and artefact in ARTEFACTS:
            path = folder / f"bundle-{artefact}"
            path.write_bytes(bundle.members[entry.file])
            files.append(_file(bundle.manifest.name, artefact, path, entry.entry, model.macs))
    if not files:
        raise BadInput(f"An artefact among {', '.join(ARTEFACTS)} was expected; the bundle has none of them.")
    return files


def model_file(path: Path) -> dict[str, Any]:
    """One .tflite or .onnx file. Raises ``BadInput`` for another file, or one with open sizes."""
    from edgeveil.trainer.export.artefact import artefact_entry
    from edgeveil.trainer.graphs.files import read
    from edgeveil.trainer.graphs.macs import graph_macs

    if path.suffix not in (".tflite", ".onnx"):
        raise BadInput(f"A .tflite or .onnx file was expected; got {path}.")
    try:
        data = path.read_bytes()
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror}.") from None
    graph = read(data, path.suffix[1:])
    shapes = [t.shape for t in (*graph.inputs.values(), *graph.outputs.values())]
    if any(size < 1 for shape in shapes for size in shape):
        raise BadInput(f"{path} leaves sizes open ({shapes}); export it for one frame at a time.")
    dtypes = {t.dtype for t in graph.tensors() if t.constant}
    precision = "int8" if "int8" in dtypes else "float16" if "float16" in dtypes else "float32"
    names = {"inputs": list(graph.inputs), "outputs": list(graph.outputs)}
    entry = artefact_entry(data, graph, file=path.name, precision=precision, max_abs=0, **names)
    return _file(path.stem, f"{graph.format}-{precision}", path, entry, graph_macs(graph).macs)


def link_packages(folder: Path) -> Path:
    """Make ``folder`` a place from which another Python imports ``edgeveil.devices`` and ``edgeveil.edge_runtime``."""
    (folder / "edgeveil").mkdir()
    for package in (devices, edge_runtime):
        path = Path(str(package.__file__)).parent
        (folder / "edgeveil" / path.name).symlink_to(path)
    return folder


def _file(name: str, artefact: str, path: Path, entry: Any, macs: int) -> dict[str, Any]:
    from edgeveil.edge_runtime.backends.select import kinds_of_format

    return {
        "name": name,
        "artefact": artefact,
        "format": entry["format"],
        "path": str(path.resolve()),
        "entry": entry,
        "macs": macs,
        "backends": [kind.name for kind in kinds_of_format(entry["format"])],
    }


def run(files: Sequence[dict[str, Any]], *, rounds: int, threads: int = 1) -> dict[str, Any]:
    """Time the files in turns: the document of ``devices.timing.compare``. Raises ``DeviceFailed`` if that fails."""
    if rounds < 3 or threads < 1:
        raise BadInput(f"3 rounds and 1 thread were expected at least; got {rounds} and {threads}.")
    python = bench_python()
    spec = {"files": list(files), "rounds": rounds, "seconds": TURN_S, "threads": threads}
    turns = sum(len(file["backends"]) for file in files)
    say(f"timing {len(files)} artefacts on their interpreters: about {turns * TURN_S * (rounds + 1):.0f} s")
    with tempfile.TemporaryDirectory() as folder:
        environment = dict(os.environ, PYTHONPATH=str(link_packages(Path(folder))), OMP_NUM_THREADS=str(threads))
        path = Path(folder) / "spec.json"
        path.write_text(json.dumps(spec))
        command = [str(python), "-m", "edgeveil.devices.compare", str(path)]
        done = subprocess.run(  # noqa: S603  our own module
            command, cwd=folder, env=environment, capture_output=True, timeout=LIMIT_S, check=False
        )
    if done.returncode:
        last = (done.stderr.decode("utf-8", "replace").strip().splitlines() or ["no error message"])[-1]
        raise DeviceFailed(f"Timing side by side ended with code {done.returncode}: {last[:300]}.")
    return json.loads(done.stdout.splitlines()[-1])


# ``edgeveil bench``: time a bundle in turns with other networks on this machine, or on a board.


@board_command(
    app,
    "Examples: edgeveil bench mnist.veil --trust trust --against other.tflite; "
    "edgeveil bench mnist.veil --on ssh://pi@edgepi --for raspberry-pi-cpu --out result.json",
    panel=BOARDS,
    on=OptionalOn,
    default=None,
)
def bench(
    at: SiteBoard | None,
    bundle: Bundle,
    trust: Annotated[Path | None, typer.Option(help="Folder of the public keys that may sign; with --against.")] = None,
    against: Annotated[
        list[str] | None,
        typer.Option(help="A .tflite or .onnx file to time in turns with the bundle; may be repeated."),
    ] = None,
    profile: Annotated[str | None, typer.Option("--for", help="The board's profile: where its sensors are.")] = None,
    allow_commands: AllowCommands = False,
    artefact: Annotated[str, typer.Option(help="With --on: which artefact (auto: the preferred).")] = "auto",
    device: Device = CPU,
    sustained: Annotated[
        str | None,
        typer.Option(help="With --on: duration, such as 30m. publish: 1024 frames and 600 s, enough to publish."),
    ] = None,
    pace: Annotated[float | None, typer.Option(help="With --on: frames per second.")] = None,
    rounds: Annotated[int, typer.Option(help="With --against: rounds.")] = 15,
    threads: Annotated[int, typer.Option(help="Threads of the interpreter.")] = 1,
    out: Annotated[Path | None, typer.Option(help="Also write the JSON document to this file.")] = None,
    as_json: Json = False,
) -> None:
    """Time a bundle in turns with other networks, or on a board. edgeveil-edge bench times it alone, here."""
    from edgeveil.edge_runtime.util.atomic import write_atomic

    if bool(against) == (at is not None):
        raise BadInput("Exactly one of --against (other networks, on this machine) and --on (a board) was expected.")
    mine: list[dict[str, Any]] = []
    others: list[dict[str, Any]] = []
    if at is not None:
        more = ["--threads", str(threads), "--artefact", artefact]
        more += ["--device", check_device(device)] if device != CPU else []
        publish = sustained == "publish"
        more += ["--publish"] if publish else ["--sustained", sustained] if sustained else []
        more += ["--pace", str(pace)] if pace is not None else []
        limit_s = 900.0 + (600 if publish else seconds_of("--sustained", sustained) if sustained else 0)
        named = profile or at.profile
        known = None if named is None else board_profile(named, allow_commands or at.allow_commands)
        with at.open() as board:
            document = on_board(board, bundle, known, more, limit_s)
    else:
        if device != CPU:
            raise BadInput("--device says what runs a bundle on a board: name the board with --on.")
        bench_python()  # raises before anything is built for it
        with tempfile.TemporaryDirectory() as name:
            mine = bundle_files(verified_bundle(bundle, trust), Path(name))
            others = [model_file(Path(one)) for one in against or ()]
            document = run([*mine, *others], rounds=rounds, threads=threads)
    text = json.dumps(document, indent=1, sort_keys=True) + "\n"
    if out is not None:
        write_atomic(out, text.encode(), keep_old=True)
    if as_json:
        sys.stdout.write(text)
    else:
        print_text("\n".join(_lines(document)))
    # Ratios of networks timed in turns are valid on a busy machine too, with wider intervals.
    if document.get("kind") != "side-by-side" and document["verdict"] == "INVALID":
        raise LimitNotMet(f"these figures are INVALID: {'; '.join(document['reasons'])}")
    ran = {row["name"] for row in document.get("rows", ())}
    for of, files in (("the bundle", mine), ("the other networks", others)):
        if document.get("kind") == "side-by-side" and not ran & {file["name"] for file in files}:
            raise LimitNotMet(f"nothing was compared: no interpreter here ran a file of {of}.")


def on_board(board: Board, bundle: Path, known: Profile | None, more: list[str], limit_s: float) -> dict[str, Any]:
    """Send the bundle to a board, time it with the board's runtime, and remove it; the document of that benchmark."""
    from edgeveil.devices.flashing.board import runtime_output
    from edgeveil.devices.remote import remote_workspace
    from edgeveil.edge_runtime.bench.protocol import SCHEMA

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
