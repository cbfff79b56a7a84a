"""Run by the Python that has rknn-toolkit2: compile an ONNX file for a Rockchip NPU, and simulate what it computes.

    PYTHON rockchip_worker.py FOLDER CHIP

``FOLDER`` has ``model.onnx``, ``calibration.npz`` and ``rows.npz``, whose arrays (n, ...) are named as the model's
inputs. It gets ``model.rknn`` and ``outputs.npz``, named as the model's outputs. This file imports nothing of
EdgeVeil's: the toolkit needs packages of an age that the trainer's do not have.
"""

import importlib
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper


def lowered(model: Any) -> Any:
    """The model with Min(x, constant) as Clip, which is the same: the compiler has no Min for this NPU."""
    constants = {one.name: numpy_helper.to_array(one) for one in model.graph.initializer}
    for node in model.graph.node:
        known = [name for name in node.input if name in constants and constants[name].size == 1]
        if node.op_type == "Min" and len(node.input) == 2 and len(known) == 1:
            (value,) = [name for name in node.input if name not in known]
            most = known[0] + "_as_number"
            model.graph.initializer.append(numpy_helper.from_array(constants[known[0]].reshape(()), most))
            node.op_type = "Clip"
            del node.input[:]
            node.input.extend([value, "", most])
    return model


def main(folder: Path, chip: str) -> None:
    """Compile and simulate; an exception where the toolkit says that a step failed."""
    source = folder / "model.onnx"
    model = lowered(onnx.load(str(source)))
    onnx.save(model, str(source))
    names = [one.name for one in model.graph.input]
    outputs = [one.name for one in model.graph.output]
    listed = []
    with np.load(str(folder / "calibration.npz")) as file:
        for number in range(len(file[names[0]])):
            paths = [f"{number}-{place}.npy" for place in range(len(names))]
            for path, name in zip(paths, names):
                np.save(str(folder / path), file[name][number : number + 1])
            listed.append(" ".join(paths))
    (folder / "calibration.txt").write_text("\n".join(listed) + "\n")
    # Its table of operations, which says where each would run, is printed only where it is verbose.
    toolkit = importlib.import_module("rknn.api").RKNN(verbose=True)
    done(toolkit.config(target_platform=chip), "config")
    done(toolkit.load_onnx(model=str(source)), "load_onnx")
    done(toolkit.build(do_quantization=True, dataset=str(folder / "calibration.txt")), "build")
    done(toolkit.export_rknn(str(folder / "model.rknn")), "export_rknn")
    done(toolkit.init_runtime(), "init_runtime")  # without a target: the simulator
    with np.load(str(folder / "rows.npz")) as file:
        rows = {name: file[name] for name in names}
    layout = ["nchw" if rows[name].ndim == 4 else "undefined" for name in names]  # as they are: nothing is transposed
    inferences = [
        toolkit.inference(inputs=[rows[name][at : at + 1] for name in names], data_format=layout)
        for at in range(len(rows[names[0]]))
    ]
    arrays: Any = {name: np.concatenate([one[place] for one in inferences]) for place, name in enumerate(outputs)}
    np.savez(str(folder / "outputs.npz"), **arrays)
    toolkit.release()


def done(code: int, step: str) -> None:
    """The toolkit returns a code in place of raising an exception."""
    if code != 0:
        raise SystemExit(f"{step} failed ({code})")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
