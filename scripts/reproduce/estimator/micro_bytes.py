"""Int8 files on TensorFlow Lite Micro, the interpreter of microcontrollers, byte by byte beside LiteRT.

An Ethos-U is driven by TFLite Micro, and what Vela compiles for it runs nowhere else. The nearest that can be run here
is TFLite Micro itself, with its kernels for a processor: PyPI's tflite-micro, in a Python of its own. The networks are
those of one recipe for each form of network (or of every recipe), untrained, the inputs real; LiteRT runs without
XNNPACK. Records docs/results/devices/tflite-micro.json; exit code 3 where a file does not run.

    EDGEVEIL_DATA=... python -m scripts.reproduce.estimator.micro_bytes --python .venvs/tflite-micro/bin/python --every
"""

from __future__ import annotations

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.export.convert import to_tflite
from scripts.reproduce import record
from scripts.reproduce.estimator import micro_worker
from scripts.reproduce.estimator.survey import Tool, survey
from scripts.reproduce.estimator.untrained import Untrained

RESULT = Path("docs/results/devices/tflite-micro.json")
PACKAGE = "tflite-micro"
LIMIT_S = 300
WORKER = """
import sys
sys.path.insert(0, sys.argv[1])
import pathlib, micro_worker
micro_worker.main(pathlib.Path(sys.argv[2]), int(sys.argv[3]))
"""


def compared(name: str, one: Untrained, *, python: Path) -> dict[str, Any]:
    """One recipe's row: how many output values differ, and by how many of the 255 steps at most."""
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    data = to_tflite.convert(one.network, ["int8"], one.inputs)["int8"]
    row: dict[str, Any] = {"recipe": name, "kind": one.recipe.perturber.kind, "bytes": len(data)}
    plain = Interpreter(
        model_content=data, experimental_op_resolver_type=OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    )
    plain.allocate_tensors()
    ends = plain.get_input_details()
    rows = [_int8(one.inputs[_name(end["name"], one.inputs)], end) for end in ends]
    wanted = plain.get_output_details()
    ours = []
    for number in range(len(rows[0])):
        for end, values in zip(ends, rows, strict=True):
            plain.set_tensor(end["index"], values[number : number + 1])
        plain.invoke()
        ours.append([plain.get_tensor(end["index"]) for end in wanted])
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        (folder / "model.tflite").write_bytes(data)
        given: Any = {str(place): values for place, values in enumerate(rows)}
        np.savez(folder / "rows.npz", **given)
        words = [str(Path(micro_worker.__file__).parent), text, str(len(wanted))]
        command = [str(python), "-I", "-c", WORKER, *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
        if done.returncode:
            how = "aborted" if done.returncode < 0 else (done.stderr.strip().splitlines() or ["no message"])[-1][:300]
            return {**row, "did_not_run": how}
        with np.load(folder / "outputs.npz") as file:
            theirs = [file[str(place)] for place in range(len(wanted))]
    apart = [
        np.abs(np.concatenate([answer[place] for answer in ours]).astype(int) - theirs[place].astype(int))
        for place in range(len(wanted))
    ]
    values = sum(one.size for one in apart)
    differ = sum(int(np.count_nonzero(one)) for one in apart)
    return {
        **row,
        "rows": len(rows[0]),
        "values": values,
        "differ": differ,
        "steps": max(int(one.max()) for one in apart),
    }


def _name(tensor: str, inputs: dict[str, np.ndarray]) -> str:
    """The input that a tensor is: serving_default_image:0 is image."""
    return next(name for name in inputs if tensor == f"serving_default_{name}:0")


def _int8(values: np.ndarray, end: dict[str, Any]) -> np.ndarray:
    scale, zero = end["quantization"]
    return np.clip(np.rint(values / scale) + zero, -128, 127).astype(np.int8)


def version(python: Path) -> str:
    """The version of tflite-micro in that Python. Raises ``BadInput`` where it has none."""
    asked = f"import importlib.metadata as m; print(m.version({PACKAGE!r}))"
    try:
        done = subprocess.run([str(python), "-I", "-c", asked], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        raise BadInput(
            f"A Python with {PACKAGE} was expected; {python} has none. Run scripts/environments/vendors."
        ) from None
    return done.stdout.strip()


TOOL = Tool(PACKAGE, "tflite_micro", version, compared, failed="did_not_run")


def main() -> int:
    """Run all of them, and write the record."""
    return survey(__file__, __doc__, RESULT, TOOL)


if __name__ == "__main__":
    record.run(main)
