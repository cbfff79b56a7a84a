"""Every converter on the same networks: lint for each board, distance from Keras, y, size, latency, old interpreters.

Needs PyTorch for keras-onnx: run it by .venvs/torch/bin/python (scripts/environments/torch). The figures of a network
stay in --work, and a run that was broken off goes on from them. Networks but digits-prgan are of a recipe's size with
drawn weights: what is compared are files, not perturbers. Latencies of the converters take turns, one thread.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from edgeveil.devices import profiles
from edgeveil.edge_runtime.backends import open_backend
from edgeveil.trainer.export import golden
from edgeveil.trainer.export.artefact import artefact_entry, runs_on
from edgeveil.trainer.export.converters.converter import CONVERTERS
from edgeveil.trainer.export.manifest import lint
from edgeveil.trainer.graphs.files import read
from edgeveil.trainer.graphs.macs import graph_macs
from scripts import record
from scripts.environments import pythons

OUT = record.RESULTS / "converters.json"
SIZES = {  # of the generators: of a recipe, or of the paper's frames
    "mnist-prgan": {"shape": (28, 28, 1), "width": 20, "halvings": 2, "blocks": 2},
    "wifi-prgan": {"shape": (520,), "width": 256, "blocks": 2},
    "depth-prgan": {"shape": (48, 64, 1), "width": 24, "halvings": 2, "blocks": 2},
    "paper-180": {"shape": (180, 180, 1), "width": 32, "halvings": 2, "blocks": 4},
    "paper-180-noise": {"shape": (180, 180, 1), "width": 24, "halvings": 2, "blocks": 4, "noise": 16},
}
CASES = ("digits-prgan", *SIZES)
PRECISIONS = {"tflite": ("float32", "int8"), "onnx": ("float32", "int8")}
CALIBRATION, COMPARED, TURNS, TURN_S = 64, 64, 15, 0.3
OPSETS = {"boards": 13, "newest": 18}  # of keras-onnx
OLD = {"py37": ("tflite", "tflite-runtime 2.11, Python 3.7"), "py36": ("onnx", "onnxruntime 1.10, Python 3.6")}
LOADS = """
import sys, numpy as np
form, path, rows, out = sys.argv[1:]
feeds = dict(np.load(rows))
results = []
if form == "onnx":
    import onnxruntime
    session = onnxruntime.InferenceSession(path)
    for row in range(len(next(iter(feeds.values())))):
        results.append(session.run(None, {k: v[row:row + 1] for k, v in feeds.items()})[0])
else:
    from tflite_runtime.interpreter import Interpreter
    opened = Interpreter(model_path=path)
    opened.allocate_tensors()
    end = opened.get_output_details()[0]
    for row in range(len(next(iter(feeds.values())))):
        for one in opened.get_input_details():
            name = one["name"].replace("serving_default_", "").partition(":")[0]
            scale, zero = one["quantization"]
            value = feeds[name][row:row + 1]
            if scale:
                value = np.clip(np.round(value / scale + zero), -128, 127).astype(np.int8)
            opened.set_tensor(one["index"], value)
        opened.invoke()
        value, (scale, zero) = opened.get_tensor(end["index"]).astype(np.float32), end["quantization"]
        results.append((value - zero) * scale if scale else value)
np.save(out, np.concatenate(results))
"""


def network(case: str, work: Path) -> tuple[Any, dict[str, np.ndarray], Any]:
    """A generator, rows (n, ...) of its inputs in [0, 1], and for digits a function: outputs -> accuracy of y."""
    rng = np.random.default_rng(0)
    n = CALIBRATION + COMPARED
    if case == "digits-prgan":
        return _trained(work)
    from edgeveil.models.generators import conv_generator, mlp_generator

    how: dict[str, Any] = dict(SIZES[case])
    shape = how.pop("shape")
    model = conv_generator(shape, **how) if len(shape) > 1 else mlp_generator(shape[0], **how)
    change = model.get_layer("change")  # which begins near 0: a generator begins as the identity
    kernel, bias = change.get_weights()
    change.set_weights([rng.normal(0, 1 / np.sqrt(kernel.size), kernel.shape).astype(np.float32), bias])
    drawn = golden._images(shape, rng) if len(shape) > 1 else golden._vectors(shape, rng)
    rows = np.resize(np.clip(drawn, 0, 1), (n, *shape)).astype(np.float32)
    return model, _rows(model, rows, rng), None


def _rows(model: Any, rows: np.ndarray, rng: np.random.Generator) -> dict[str, np.ndarray]:
    first, *others = model.inputs
    rows[0], rows[1] = 0, 1
    drawn = {one.name: rng.random((len(rows), *one.shape[1:]), np.float32) for one in others}
    return {first.name: rows, **drawn}


def _trained(work: Path) -> tuple[Any, dict[str, np.ndarray], Any]:
    from edgeveil.trainer.datasets.slicing import fit_and_validation
    from edgeveil.trainer.graphs.prediction import predict
    from edgeveil.trainer.recipe.schema import Recipe
    from edgeveil.trainer.runs.run import Run
    from edgeveil.trainer.train import train

    folder = work / "digits-run"
    run = (
        Run.open(folder)
        if (folder / "run.json").is_file()
        else train(Recipe.find("digits-prgan"), folder, budget="quick")
    )
    fit, held_out = fit_and_validation(run.dataset(), "perturber")
    target, x = run.classifiers()["target"], np.concatenate([fit.x[:CALIBRATION], held_out.x[:COMPARED]])
    rows = run.dataset().unit(x)
    (model,) = run.perturber().models.values()

    def accuracy(got: np.ndarray) -> float:
        return float((predict(target, got).argmax(1) == held_out.y[: len(got)]).mean())

    return model, {model.inputs[0].name: rows.astype(np.float32)}, accuracy


def figures(case: str, work: Path) -> dict[str, Any]:
    """All files of a network, and what each is."""
    model, rows, accuracy = network(case, work)
    calibration = {name: values[:CALIBRATION] for name, values in rows.items()}
    compared = {name: values[CALIBRATION:] for name, values in rows.items()}
    given = list(compared.values())
    expected = np.asarray(model(given if len(given) > 1 else given[0], training=False))
    found: list[dict[str, Any]] = []
    runners: dict[str, list[Callable[[], Any]]] = {}
    for name, kind in CONVERTERS.kinds().items():
        if any(find_spec(one) is None for one in kind.facts["modules"]):
            continue
        for label, opset in OPSETS.items() if name == "keras-onnx" else [("boards", OPSETS["boards"])]:
            form = kind.facts["format"]
            converter = kind.load()(opset)
            before = _processor_s()
            try:
                files = converter.convert(model, PRECISIONS[form], calibration)
            except Exception as error:  # of many kinds: what a converter refuses is a row
                found.append({"converter": name, "for": label, "refused": str(error)[:300]})
                continue
            taken = _processor_s() - before
            for precision, data in files.items():
                row = {"converter": name, "for": label, "artefact": f"{form}-{precision}", "convert_s": taken}
                got, run = _run(model, data, form, precision, compared)
                off = np.abs(got - expected)
                row |= _file(data, form, precision)
                row |= {"max_abs": float(off.max()), "mean_abs": float(off.mean())}
                row["y"] = None if accuracy is None else accuracy(got)
                row["old"] = _old(data, form, compared, got)
                found.append(row)
                runners.setdefault(row["artefact"], []).append(run)
    for artefact, runs in runners.items():
        rows_of = [row for row in found if row.get("artefact") == artefact]
        for row, milliseconds in zip(rows_of, _in_turns(runs), strict=True):
            row["ms"] = milliseconds
    keras = None if accuracy is None else accuracy(expected)
    return {"case": case, "y_keras": keras, "inputs": {k: list(v.shape[1:]) for k, v in rows.items()}, "files": found}


def _processor_s() -> float:
    both = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in both)


def _file(data: bytes, form: str, precision: str) -> dict[str, Any]:
    graph, name = read(data, form), f"{form}-{precision}"
    boards = [profiles.load(one) for one in profiles.names()]
    findings = {one.name: len(lint(graph, precision, one)) for one in boards if runs_on(name, one.artefacts)}
    facts = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest(), "macs": graph_macs(graph).macs}
    return {
        **facts,
        "operations": len(graph.ops),
        "findings": findings,
        "findings_anywhere": len(lint(graph, precision)),
    }


def _run(
    model: Any, data: bytes, form: str, precision: str, rows: dict[str, np.ndarray]
) -> tuple[np.ndarray, Callable[[], Any]]:
    names = {"inputs": [one.name for one in model.inputs], "outputs": list(model.output_names)}
    entry = artefact_entry(data, read(data, form), file=f"a.{form}", precision=precision, max_abs=1.0, **names)
    backend = open_backend(form, data, entry)
    got = np.asarray(backend.run(rows)[names["outputs"][0]])
    return got, backend.bare_call(np.random.RandomState(0))


def _in_turns(runs: list[Callable[[], Any]]) -> list[float]:
    """The least time of a frame, in milliseconds, of each: they take turns, so that other work meets all alike."""
    least = [float("inf")] * len(runs)
    for turn in range(TURNS):
        order = range(len(runs)) if turn % 2 else reversed(range(len(runs)))
        for place in order:
            until = time.perf_counter() + TURN_S
            while (begun := time.perf_counter()) < until:
                runs[place]()
                least[place] = min(least[place], 1000 * (time.perf_counter() - begun))
    return least


def _old(data: bytes, form: str, rows: dict[str, np.ndarray], here: np.ndarray) -> dict[str, Any] | None:
    """What the old interpreter of that format makes of the file; None where its environment is not here."""
    name = next(one for one, (of, _) in OLD.items() if of == form)
    python = pythons.folder() / name / "bin" / "python"
    if not python.exists():
        return None
    with tempfile.TemporaryDirectory() as folder:
        path, feeds, out = (Path(folder) / one for one in (f"a.{form}", "rows.npz", "out.npy"))
        path.write_bytes(data)
        np.savez(feeds, **{name: values[:8] for name, values in rows.items()})  # type: ignore[arg-type]
        command = [str(python), "-c", LOADS, form, str(path), str(feeds), str(out)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            return {
                "by": OLD[name][1],
                "refused": done.stderr.strip().splitlines()[-1].replace(str(path), "the file")[:300],
            }
        return {"by": OLD[name][1], "max_abs": float(np.abs(np.load(out) - here[:8]).max())}


def main() -> int:
    """Record the networks that were named, or all."""
    script = record.Script(__file__, __doc__, "digits-prgan mnist-prgan", out=OUT)
    script.add_argument("cases", nargs="*", default=list(CASES), metavar="NAME", help=f"of {', '.join(CASES)}")
    script.add_argument("--work", type=Path, default=Path(tempfile.gettempdir()) / "edgeveil-converters", help="folder")
    asked = script.parse_args()
    if unknown := [name for name in asked.cases if name not in CASES]:
        script.error(f"expected names of {', '.join(CASES)}; got {', '.join(unknown)}")
    from edgeveil.trainer.tensorflow_quiet import load_tensorflow

    load_tensorflow()
    for case in asked.cases:
        print(case, file=sys.stderr)
        record.kept(asked.work / f"{case}.json", lambda one=case: figures(one, asked.work))
    known = [record.read(asked.work / f"{case}.json") for case in CASES]
    packages = {name for kind in CONVERTERS.kinds().values() for name in kind.facts["packages"]} - {"tensorflow"}
    versions = {name: importlib.metadata.version(name) for name in sorted(packages)}
    here = record.here()
    here["versions"] |= versions
    document = {**here, "seed": 0, "rows": {"calibration": CALIBRATION, "compared": COMPARED}, "turns": TURNS}
    record.write(asked.out, script.path, {**document, "networks": [one for one in known if one]})
    return 0


if __name__ == "__main__":
    record.run(main)
