"""``edgeveil doctor``: what is installed, which data and boards there are, and what is missing for what."""

from __future__ import annotations

import importlib.util
import os
import platform
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from edgeveil.edge_runtime import __version__
from edgeveil.edge_runtime.errors import DeviceFailed, EdgeVeilError
from edgeveil.trainer.cli.common import Json, print_either
from edgeveil.trainer.cli.tree import HERE, app
from edgeveil.trainer.progress import say

# What for: the modules that it needs, and what installs them.
NEEDS: Mapping[str, tuple[tuple[str, ...], str]] = {
    "train and audit": (("tensorflow", "keras", "sklearn", "scipy", "pydantic"), "pip install 'edgeveil[trainer]'"),
    "export": (("tf2onnx", "onnx", "onnxruntime", "ai_edge_litert"), "pip install 'edgeveil[trainer]'"),
    "keras-litert, keras-onnx": (("ai_edge_quantizer", "onnxscript"), "pip install 'edgeveil[converters]'"),
    "sign": (("cryptography",), "pip install 'edgeveil[trainer]'"),
    "pictures, films and cameras": (("cv2",), "pip install 'edgeveil[camera]'"),
    "Parquet, Hugging Face": (("pyarrow",), "pip install 'edgeveil[parquet]'"),
    "HDF5 files": (("h5py",), "pip install 'edgeveil[hdf5]'"),
    "recordings of ROS, MCAP": (("rosbags", "mcap"), "pip install 'edgeveil[ros]'"),
    "boards over SSH": (("paramiko",), "pip install 'edgeveil[ssh]'"),
    "boards over a serial line": (("serial",), "pip install 'edgeveil[serial]'"),
    "MQTT": (("paho",), "pip install 'edgeveil[mqtt]'"),
    "sweeps on Ray": (("ray",), "pip install 'edgeveil[ray]'"),
    "EDGEVEIL_TRACK=mlflow:URI": (("mlflow",), "pip install 'edgeveil[mlflow]'"),
    "EDGEVEIL_TRACK=wandb:PROJECT": (("wandb",), "pip install 'edgeveil[wandb]'"),
    "keys on a token": (("pkcs11",), "pip install 'edgeveil[pkcs11]'"),
    "bundle card FILE.json": (("cyclonedx",), "pip install 'edgeveil[cyclonedx]'"),
}


@app.command(rich_help_panel=HERE, epilog="Example: edgeveil doctor ssh://pi@edgepi")
def doctor(
    boards: Annotated[list[str] | None, typer.Argument(metavar="BOARD", help="Boards to ask: ssh://user@host.")] = None,
    as_json: Json = False,
) -> None:
    """Say what is installed, which data sets are there, which boards answer, and what is missing for what."""
    report = examine(boards or ())
    print_either(report, text(report), as_json=as_json)
    silent = [one for one in report["boards"] if one["problem"] is not None]
    if silent:
        raise DeviceFailed(f"{len(silent)} of {len(report['boards'])} boards do not answer: {silent[0]['problem']}")
    say("Next: edgeveil data inspect SOURCE, or edgeveil recipe list")


def examine(boards: Sequence[str] = ()) -> dict[str, Any]:
    """The document of ``--json``."""
    return {
        "schema": 1,
        "edgeveil": __version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "parts": [_part(what, *needs) for what, needs in NEEDS.items()],
        "programs": [
            {"name": program, "for": f"artefacts of {what}", "there": shutil.which(program) is not None}
            for program, what in _compilers()
        ],
        "data": [{"name": name, "missing": missing(paths)} for name, paths in data_sets().items()],
        "boards": [_board(target) for target in boards],
    }


def _compilers() -> list[tuple[str, str]]:
    """The programs that compile for accelerators, and for which; from their facts, without an import of each."""
    from edgeveil.trainer.export.compilers.vendors import everyone

    facts = [kind.facts for kind in everyone()]
    return [(one["program"], one["makes_for"]) for one in facts if one.get("program")]


def data_sets() -> dict[str, tuple[str, ...]]:
    """The files of each data set that is downloaded once, below the folder that EDGEVEIL_DATA names."""
    from edgeveil.trainer.recipe.data_section import SETS

    all_sets = {**SETS.kinds(), **SETS.plugins()}
    firsts = {one.facts["names"][0]: tuple(one.facts.get("files", ())) for one in all_sets.values()}
    return {name: files for name, files in firsts.items() if files}


def missing(paths: Sequence[str]) -> list[str]:
    """Those of the files that are not there, packed or not; their checksums are read when they are loaded."""
    folder = os.environ.get("EDGEVEIL_DATA")
    if not folder:
        return list(paths)
    root = Path(folder).expanduser()
    return [path for path in paths if not (root / path).is_file() and not (root / f"{path}.gz").is_file()]


def text(found: Mapping[str, Any]) -> str:
    """For people."""
    from edgeveil.trainer.recipe.data_section import SETS

    lines = [f"edgeveil {found['edgeveil']}, Python {found['python']}, {found['system']}"]
    for part in found["parts"]:
        gone = f"missing: {', '.join(part['missing'])} ({part['install']})"
        lines.append(f"  {part['for']:28} {gone if part['missing'] else 'there'}")
    for one in found["programs"]:
        lines.append(f"  {one['for']:28} {'there' if one['there'] else 'missing: ' + one['name'] + ' on PATH'}")
    for one in found["data"]:
        where = "missing below EDGEVEIL_DATA: " if os.environ.get("EDGEVEIL_DATA") else "EDGEVEIL_DATA is not set: "
        gone = where + ", ".join(one["missing"][:2]) + (", ..." if len(one["missing"]) > 2 else "")
        gone += " (downloaded when it is first used)" if SETS[one["name"]].facts.get("downloaded") else ""
        lines.append(f"  data set {one['name']:19} {gone if one['missing'] else 'there'}")
    for one in found["boards"]:
        lines.append(f"  {one['target']:28} {one['problem'] or one['what']}")
    return "\n".join(lines)


def _part(what: str, modules: Sequence[str], install: str) -> dict[str, Any]:
    gone = [name for name in modules if importlib.util.find_spec(name) is None]
    return {"for": what, "missing": gone, "install": install if gone else None}


def _board(target: str) -> dict[str, Any]:
    from edgeveil.devices.site import find

    try:
        with find(target).open() as board:
            facts = board.facts_document()
    except EdgeVeilError as problem:
        return {"target": target, "what": None, "problem": str(problem)}
    known = (facts.get(key) for key in ("board", "architecture", "python"))
    return {"target": target, "what": ", ".join(str(one) for one in known if one) or "answers", "problem": None}
