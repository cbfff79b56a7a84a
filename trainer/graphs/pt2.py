"""A .pt2 file of PyTorch, read without PyTorch: the graph of a module, and its weights.

``torch.export.load`` unpickles parts of such an archive and evaluates the text of its sizes, so a file could run code
of its writer's. Here its JSON and its raw weights are read, and nothing else; an archive with a pickle among its
weights is refused. Its layout: torch/export/pt2_archive, torch/_export/serde/schema.py (format 0, schema 8).
"""

from __future__ import annotations

import json
import math
import re
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from edgeveil.edge_runtime.errors import BadInput

SAVE = 'torch.export.save(torch.export.export(model.eval(), (sample,)), "FILE.pt2")'
MOST_BYTES = 1 << 30
SCHEMA = 8
# The numbers of torch's ScalarType; the others are no numbers that numpy has.
DTYPES = dict(zip(range(1, 9), ("u1", "i1", "<i2", "<i4", "<i8", "<f2", "<f4", "<f8"), strict=True)) | {12: "?"}
FLOAT = 7
_ATEN = re.compile(r"torch\.ops\.aten\.([a-z0-9_]+)\.([A-Za-z0-9_]+)")
_SCALARS = ("as_int", "as_float", "as_bool", "as_string", "as_ints", "as_floats", "as_bools", "as_strings")


@dataclass(frozen=True)
class Ref:
    """The value of that name."""

    name: str


@dataclass(frozen=True)
class Dtype:
    """A number of torch's ScalarType."""

    number: int


@dataclass(frozen=True)
class Node:
    """One operation of ATen: its arguments by name, the names of its results, and the module that made it."""

    op: str
    overload: str
    args: dict[str, Any]
    outputs: tuple[str, ...]
    module: str

    @property
    def where(self) -> str:
        """The operation and its layer, for messages."""
        return f"{self.op} of {f'the layer {self.module}' if self.module else 'its forward'}"

    def refs(self) -> Iterator[str]:
        """The names of all values that it reads."""
        for value in self.args.values():
            yield from (one.name for one in (value if isinstance(value, list) else [value]) if isinstance(one, Ref))


@dataclass
class Program:
    """A module as a graph. ``shapes`` of values have None where a size is open; ``dtypes`` are numbers of torch's."""

    inputs: list[str]
    output: str
    nodes: list[Node]
    weights: dict[str, np.ndarray]
    trained: set[str]
    names: dict[str, str]  # of weights, in the module
    shapes: dict[str, tuple[int | None, ...]] = field(default_factory=dict)
    dtypes: dict[str, int] = field(default_factory=dict)


def read_pt2(source: Path | BinaryIO, name: str) -> Program:
    """The graph and weights of a file of ``torch.export.save``. Raises ``BadInput`` with ``name`` and the cure."""
    try:
        with zipfile.ZipFile(source) as archive:
            return _program(_files(archive, name), name)
    except FileNotFoundError:
        raise BadInput(f"A model was expected at {source}; there is no such file.") from None
    except (zipfile.BadZipFile, OSError, LookupError, TypeError, ValueError, AttributeError, RecursionError):
        raise BadInput(
            f"{name} is no whole file of torch.export.save (PyTorch 2.8 or later), and nothing else is read, a pickle "
            f"least of all. Write it again: {SAVE}."
        ) from None


def _files(archive: zipfile.ZipFile, name: str) -> dict[str, bytes]:
    """The parts of an archive that are read, by their names within its one folder."""
    entries = archive.infolist()
    folder = entries[0].filename.partition("/")[0]
    parts = [one for one in entries if re.fullmatch(r"[^/]+/(models|data/weights|data/constants)/[^/]+", one.filename)]
    if any(one.compress_type != zipfile.ZIP_STORED for one in parts):
        raise ValueError("torch stores without compressing; another archive could unfold to any size")
    if (size := sum(one.file_size for one in parts)) > MOST_BYTES:
        raise BadInput(f"{name} has {size >> 20} MiB; at most {MOST_BYTES >> 20} are read. Give a smaller model.")
    return {one.filename.removeprefix(f"{folder}/"): archive.read(one) for one in parts}


def _program(files: dict[str, bytes], name: str) -> Program:
    models = [one for one in files if one.startswith("models/")]
    if not models:
        raise ValueError("no model")
    if len(models) != 1:
        raise BadInput(f"{name}: an archive of one model was expected; it has {len(models)}.")
    document = json.loads(files[models[0]])
    if document["schema_version"]["major"] != SCHEMA:
        raise BadInput(
            f"{name}: schema {SCHEMA} of torch.export was expected, of PyTorch 2.8 or later; it has "
            f"{document['schema_version']['major']}. Save it with such a version."
        )
    graph, signature = document["graph_module"]["graph"], document["graph_module"]["signature"]
    stored = {**_weights(files, "weights/model_weights", name), **_weights(files, "constants/model_constants", name)}
    inputs, weights, trained, names = [], {}, set(), {}
    for spec in signature["input_specs"]:
        ((kind, one),) = spec.items()
        if kind == "user_input" and "as_tensor" in one["arg"]:
            inputs.append(str(one["arg"]["as_tensor"]["name"]))
            continue
        own = {"parameter": "parameter_name", "buffer": "buffer_name", "tensor_constant": "tensor_constant_name"}
        if kind not in own:
            raise BadInput(f"{name}: inputs of numbers were expected, tensors alone; it has one of another kind.")
        at, path = str(one["arg"]["name"]), str(one[own[kind]])
        (weights[at], learns), names[at] = stored[path], path
        if kind == "parameter" and learns:
            trained.add(at)
    outputs = []
    for spec in signature["output_specs"]:
        ((kind, one),) = spec.items()
        if kind == "buffer_mutation":
            raise _changes(one["buffer_name"], name)
        outputs.append(one["arg"])
    if len(outputs) != 1 or "as_tensor" not in outputs[0]:
        raise BadInput(f"{name}: one tensor as the output was expected; it gives {len(outputs)}.")
    output = str(outputs[0]["as_tensor"]["name"])
    nodes = [_node(one, name) for one in graph["nodes"]]
    for node in nodes:  # such as add_: what it changes is given to no other node, so it would go below
        if node.op.endswith("_") and isinstance(one := node.args.get("self"), Ref) and one.name in weights:
            raise _changes(names[one.name], name)
    needed, used_nodes = {output}, []
    for node in reversed(nodes):
        if needed.intersection(node.outputs):
            used_nodes.append(node)
            needed.update(node.refs())
    program = Program(inputs, output, used_nodes[::-1], weights, trained, names)
    for one, meta in graph["tensor_values"].items():
        program.shapes[one] = tuple(size.get("as_int") for size in meta["sizes"])
        program.dtypes[one] = int(meta["dtype"])
    return program


def _changes(buffer: str, name: str) -> BadInput:
    why = "changes at each pass, as of a batch norm in training: call model.eval() before torch.export"
    return BadInput(f"{name}: {buffer} {why}, and keep no state.")


def _node(one: dict[str, Any], name: str) -> Node:
    aten_match = _ATEN.fullmatch(target := str(one["target"]))
    op, overload = aten_match.groups() if aten_match else (target, "")
    stack = [part.split(",")[1] for part in one["metadata"].get("nn_module_stack", "").split(";") if part]
    outputs: list[str] = []
    for arg in one["outputs"]:
        ((kind, value),) = arg.items()
        outputs += [str(each["name"]) for each in value] if kind == "as_tensors" else [str(_named(kind, value))]
    node = Node(op, overload, {}, tuple(outputs), stack[-1] if stack else "")
    if not aten_match and not target.startswith("_operator."):
        raise BadInput(f"{name}: operations of PyTorch's own were expected (torch.ops.aten); it has {node.where}.")
    node.args.update({str(arg["name"]): _argument(arg["arg"], name, node) for arg in one["inputs"]})
    return node


def _named(kind: str, value: Any) -> Any:
    return value["as_name"] if kind in ("as_sym_int", "as_sym_bool", "as_sym_float") else value["name"]


def _argument(arg: dict[str, Any], name: str, node: Node) -> Any:
    ((kind, value),) = arg.items()
    if kind in _SCALARS:
        return value
    if kind == "as_tensor":
        return Ref(str(value["name"]))
    if kind == "as_tensors":
        return [Ref(str(one["name"])) for one in value]
    if kind == "as_optional_tensors":
        return [Ref(str(one["as_tensor"]["name"])) if "as_tensor" in one else None for one in value]
    if kind == "as_sym_int":
        return value["as_int"] if "as_int" in value else Ref(str(value["as_name"]))
    if kind == "as_sym_ints":
        return [one["as_int"] if "as_int" in one else Ref(str(one["as_name"])) for one in value]
    if kind == "as_scalar_type":
        return Dtype(int(value))
    if kind in ("as_none", "as_device", "as_layout", "as_memory_format"):
        return None
    raise BadInput(f"{name}: {node.where} takes {kind.removeprefix('as_')}, which is not converted.")


def _weights(files: dict[str, bytes], part: str, name: str) -> dict[str, tuple[np.ndarray, bool]]:
    """The tensors of a part of an archive, and whether each is trained. Raises ``BadInput`` for one that is pickled."""
    tensors = {}
    for path, one in json.loads(files[f"data/{part}_config.json"])["config"].items():
        if one["use_pickle"]:
            raise BadInput(
                f"{name}: {path} is a pickle, which can run code of its writer's when it is read. Let the module hold "
                f"plain tensors, on the CPU, and write it again: {SAVE}."
            )
        meta, data = one["tensor_meta"], files[f"data/{part.partition('/')[0]}/{one['path_name']}"]
        if meta["dtype"] not in DTYPES:
            raise BadInput(f"{name}: float32 was expected, and {path} has another kind of numbers.")
        dtype = np.dtype(DTYPES[meta["dtype"]])
        sizes, strides = ([int(size["as_int"]) for size in meta[key]] for key in ("sizes", "strides"))
        start, count = int(meta["storage_offset"]["as_int"]), len(data) // dtype.itemsize
        last = start + sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True))
        if min([0, start, *sizes, *strides]) < 0 or (0 not in sizes and last >= count):
            raise ValueError("a tensor outside its bytes")
        if math.prod(sizes) > max(count, 1):
            raise ValueError("a tensor larger than its bytes")
        flat = np.frombuffer(data, dtype, count)
        steps = [stride * dtype.itemsize for stride in strides]
        values = np.array(np.lib.stride_tricks.as_strided(flat[start:], sizes, steps))
        tensors[str(path)] = values, bool(meta["requires_grad"])
    return tensors
