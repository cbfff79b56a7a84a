"""A stand-in for the Edge TPU: a real delegate of TFLite under libedgetpu's name, and files "compiled" for it.

Interpreters load it, hand their graph to it and run its operation as they would libedgetpu's: what is not real is the
arithmetic (``edge_tpu.c``) and the compiler.
"""

from __future__ import annotations

import copy
import hashlib
import io
import subprocess
from pathlib import Path

import numpy as np

from tests.support import bundles, programs

LIBRARY = "libedgetpu.so.1"
COMPILED = "tflite-int8-edgetpu"
SOURCE = Path(__file__).parent / "edge_tpu.c"
# sizeof(TfLiteTensor) on 64-bit machines, of tflite-runtime 2.11 to ai-edge-litert 2.3.
TENSOR_BYTES = 112


def build(folder: Path, *, delegate: bool = True) -> Path:
    """The library in ``folder``, which goes into LD_LIBRARY_PATH; without ``delegate`` one that is none."""
    source = SOURCE if delegate else folder / "none.c"
    if not delegate:
        source.write_text("int nothing(void) { return 0; }\n")
    options = ["-shared", "-fPIC", "-O1", f"-DTENSOR_BYTES={TENSOR_BYTES}", f"-Wl,-soname,{LIBRARY}"]
    subprocess.run([programs.need("cc"), *options, "-o", str(folder / LIBRARY), str(source)], check=True)
    return folder


def compiled(model: bytes, *, rest: bool = False) -> bytes:
    """A TFLite file with one edgetpu-custom-op for all of ``model``; with ``rest``, a ReLU behind it for the CPU."""
    import flatbuffers
    from ai_edge_litert import schema_py_generated as schema

    tree = schema.ModelT.InitFromObj(schema.Model.GetRootAs(model))
    graph = tree.subgraphs[0]
    custom = schema.OperatorCodeT()
    custom.builtinCode = custom.deprecatedBuiltinCode = schema.BuiltinOperator.CUSTOM
    custom.customCode = "edgetpu-custom-op"
    custom.version = 1
    tree.operatorCodes = [custom]
    whole = schema.OperatorT()
    whole.opcodeIndex, whole.inputs, whole.outputs = 0, list(graph.inputs), list(graph.outputs)
    whole.customOptions = list(b"what only the Edge TPU reads")
    graph.operators = [whole]
    if rest:
        relu, last = schema.OperatorCodeT(), schema.OperatorT()
        relu.builtinCode = relu.deprecatedBuiltinCode = schema.BuiltinOperator.RELU
        relu.version = 2
        tree.operatorCodes.append(relu)
        out = graph.tensors[graph.outputs[0]]
        between = schema.TensorT()
        between.shape, between.type, between.buffer, between.quantization = out.shape, out.type, 0, out.quantization
        between.name = b"between"
        graph.tensors.append(between)
        last.opcodeIndex, last.inputs, last.outputs = 1, [len(graph.tensors) - 1], list(graph.outputs)
        whole.outputs = [len(graph.tensors) - 1]
        graph.operators.append(last)
    builder = flatbuffers.Builder(len(model))
    builder.Finish(tree.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def bundle(tiny: bundles.Made, folder: Path) -> bundles.Made:
    """The tiny bundle with ``COMPILED`` of its int8 artefact, which gives back every picture complemented."""
    manifest, members = copy.deepcopy(tiny.manifest), dict(tiny.members)
    del manifest["members"]
    # A complement is raw data under another name.
    manifest["perturber"]["identity_allowed"] = True
    artefacts = manifest["models"]["generator"]["artefacts"]
    source = artefacts["tflite-int8"]
    data = compiled(members[source["file"]])
    artefacts[COMPILED] = {
        **copy.deepcopy(source),
        "file": f"artefacts/generator.{COMPILED}.tflite",
        "sha256": hashlib.sha256(data).hexdigest(),
        "compiled": {"for": "edgetpu", "from": "tflite-int8", "sha256": source["sha256"], "by": "a stand-in"},
    }
    members[artefacts[COMPILED]["file"]] = data
    x = np.load(io.BytesIO(members["golden/input.npy"]))
    scale = source["outputs"][0]["scale"]
    members["golden/complement.npy"] = bundles.npy(np.rint((255.0 - x) * scale * 255).clip(0, 255).astype(np.uint8))
    manifest["golden"]["outputs"][COMPILED] = {"frame": "golden/complement.npy"}
    manifest["preference"].append(COMPILED)
    return bundles.make_bundle(folder, example=(manifest, members))
