"""Every converter on every shipped recipe: lint for each board, golden vectors on each interpreter, y, size, latency.

A recipe is trained under its quick budget, and each converter makes the files of its networks: compared with Keras as
an export does it, and self-tested by the board's runtime on the interpreters of this Python and of those of
scripts/environments/pythons.py. keras-onnx needs PyTorch, nncf NNCF: .venvs/nncf/bin/python has both
(scripts/environments/vendors). What is finished stays in --work, files and runs too, and a run that was broken off goes
on from it. Files of one artefact take turns, on one thread. ``--userland`` then tests and times all files in the
emulated arm64 userland, whose times compare files with each other alone.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib.metadata
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from packaging.specifiers import SpecifierSet

from edgeveil.devices import profiles
from edgeveil.devices.profiles import CONVERTERS as USUAL
from edgeveil.devices.profiles import Profile
from edgeveil.edge_runtime.backends import available, open_backend
from edgeveil.edge_runtime.errors import DeviceFailed, EdgeVeilError
from edgeveil.edge_runtime.registry import Kind
from edgeveil.trainer.cli.bench_command import link_packages
from edgeveil.trainer.export import runners
from edgeveil.trainer.export.artefact import Artefact, runs_on, why_not
from edgeveil.trainer.export.converters.converter import CONVERTERS
from edgeveil.trainer.export.export import calibration_of, measure
from edgeveil.trainer.export.kept_pieces import KeptPieces
from edgeveil.trainer.export.manifest import lint
from edgeveil.trainer.graphs.prediction import predict
from edgeveil.trainer.progress import Steps
from edgeveil.trainer.recipe.schema import Recipe
from edgeveil.trainer.runs.fitted import FittedPerturber, as_received
from edgeveil.trainer.runs.run import Run
from edgeveil.trainer.tensorflow_quiet import load_tensorflow
from edgeveil.trainer.train import train
from scripts import record
from scripts.emulation import trees
from scripts.environments import pythons

OUT = record.RESULTS / "converters.json"
WORK = Path(tempfile.gettempdir()) / "edgeveil-converters"
PRECISIONS, OPSET = ("float32", "int8"), 13  # the opset that all boards read
COMPARED, TURNS, TURN_S, CLOSE = 256, 7, 0.05, 1.05  # CLOSE: what a first choice may take of the fastest's time
OLD = ("py36", "py37", "py39-tflite", "py39-openvino")  # environments of boards, each with one interpreter
# What SELF_TEST needs in the userland, in the versions of this environment; what follows ml-dtypes is LiteRT's, too.
ARM64 = ["numpy", "onnxruntime", "ai-edge-litert", "ml-dtypes", "flatbuffers", "backports-strenum", "tqdm"]
ARM64 += ["typing-extensions"]
SELF_TEST = """
import json, os, sys, time
sys.path.insert(0, sys.argv[1])
import numpy as np
from edgeveil.edge_runtime.backends import available
from edgeveil.edge_runtime.errors import DeviceFailed, EdgeVeilError
from edgeveil.edge_runtime.manifest.schema import check_manifest
from edgeveil.edge_runtime.pipeline.pipeline import load_pipeline
from edgeveil.edge_runtime.pipeline.reconstruction import self_test
for folder, artefact in json.loads(sys.argv[2]):
    members = {}
    for place, _, names in os.walk(folder):
        for name in names:
            with open(os.path.join(place, name), "rb") as file:
                members[os.path.relpath(os.path.join(place, name), folder)] = file.read()
    manifest = check_manifest(json.loads(members.pop("manifest.json").decode()), sealed=False)
    for backend in available(artefact.split("-")[0]):
        row = {"folder": folder, "backend": backend, "python": "%d.%d" % sys.version_info[:2]}
        try:
            pipeline = load_pipeline(manifest, members, artefact, backend=backend)
            row["version"] = next(iter(pipeline.runners.values())).info()["version"]
            row["max_abs"] = float(self_test(pipeline, manifest, members, artefact))
            least = [float("inf") for _ in pipeline.runners]
            calls = [one.bare_call(np.random.RandomState(0)) for one in pipeline.runners.values()]
            for number in range(int(sys.argv[3]) * len(calls)):
                begun = time.time()
                calls[number % len(calls)]()
                least[number % len(calls)] = min(least[number % len(calls)], 1000 * (time.time() - begun))
            row.update({"ms": sum(least)} if int(sys.argv[3]) else {})
        except EdgeVeilError as error:
            row["refused"] = str(error)[:300]
        print(json.dumps(row))
"""


def trained(name: str, work: Path) -> Run:
    """The recipe's run under its quick budget, trained once; D_y and D_z are those of another run where they fit."""
    folder, recipe = work / f"{name}-run", Recipe.find(name)
    if (folder / "perturber" / "perturber.json").is_file():
        return Run.open(folder)
    for other in sorted(path.parent for path in work.glob(f"{name.partition('-')[0]}-*-run/perturber")):
        with contextlib.suppress(EdgeVeilError):
            if Run.open(other).recipe.classifiers == recipe.classifiers:
                shutil.rmtree(folder, ignore_errors=True)
                return train(recipe, folder, budget="quick", classifiers=other)
    shutil.rmtree(folder, ignore_errors=True)
    return train(recipe, folder, budget="quick")


def figures(name: str, work: Path, without: Sequence[str] = ()) -> dict[str, Any]:
    """All files of a recipe's networks, and what each is; ``refused``: why there are none, ``without``: not tried."""
    if Recipe.find(name).perturber.kind == "laplace":  # whose search of its noise takes longest of all
        return {"recipe": name, "kind": "laplace", "refused": "no network: it adds noise to readings"}
    try:
        run = trained(name, work)
        fitted = run.perturber()
    except EdgeVeilError as error:
        return {"recipe": name, "refused": str(error)[:300]}
    facts = {"recipe": name, "kind": fitted.kind, "without": list(without)}
    if not fitted.models:
        return {**facts, "refused": "no network: what it sends is computed by tables and numpy"}
    made = Made(run, fitted, work / f"{name}-files")
    kinds = {name: kind for name, kind in CONVERTERS.kinds().items() if name not in without}
    rows = [row for converter, kind in kinds.items() for row in made.by(converter, kind)]
    _self_tests(rows, made.folder)
    for artefact in sorted({row["artefact"] for row in rows}):
        timed = [(row, *one) for row in rows if row["artefact"] == artefact for one in made.calls(row)]
        for (row, backend, _), milliseconds in zip(timed, _in_turns([call for *_, call in timed]), strict=True):
            row["ms"][backend] = milliseconds
    facts["y_int8"] = {row["converter"]: row.get("y") for row in rows if row["artefact"].endswith("int8")}
    return {**facts, "y_keras": made.y(made.expected), "files": rows}


class Made:
    """A trained recipe with what its files are made of and compared with; a folder for each file and its manifest."""

    def __init__(self, run: Run, fitted: FittedPerturber, folder: Path) -> None:
        self.run, self.fitted, self.folder = run, fitted, folder
        self._part = run.validation()
        self.x = self._part.x[:COMPARED]
        self._draws = runners.recorded_draws(fitted, len(self.x), np.random.default_rng(0))
        self._calibration, self._mark = calibration_of(run, fitted)
        self._target = run.classifiers("target")["target"]
        self.expected = runners.on_keras(fitted).run(self.x, self._draws)
        self._artefacts: dict[tuple[str, str], Artefact] = {}

    def by(self, name: str, kind: Kind) -> list[dict[str, Any]]:
        """The rows of one converter's files; none where its packages are not here."""
        if any(find_spec(module) is None for module in kind.facts["modules"]):
            return []
        form = kind.facts["format"]
        wanted = [one for one in PRECISIONS if why_not(self.fitted.kind, f"{form}-{one}") is None]
        made = {precision: Artefact(f"{form}-{precision}") for precision in wanted}
        begun = _processor_s()
        try:
            for model, network in self.fitted.models.items():
                files = kind.load()(OPSET).convert(network, wanted, self._calibration[model])
                for precision, data in files.items():
                    made[precision].add(self.fitted, model, data)
        except Exception as error:  # of many kinds: what a converter refuses is a row
            why = str(error)[:300] or type(error).__name__
            return [{"converter": name, "artefact": one.name, "refused": why} for one in made.values()]
        facts = {"converter": name, "convert_s": _processor_s() - begun}
        return [{**facts, **self._row(name, one)} for one in made.values()]

    def _row(self, converter: str, one: Artefact) -> dict[str, Any]:
        self._artefacts[converter, one.name] = one
        graphs, boards = one.graphs.values(), map(profiles.load, profiles.names())
        row: dict[str, Any] = {
            "artefact": one.name,
            "bytes": sum(map(len, one.data.values())),
            "sha256": {model: hashlib.sha256(data).hexdigest() for model, data in one.data.items()},
            "macs": sum(cost.macs for cost in one.costs.values()),
            "operations": sum(len(graph.ops) for graph in graphs),
            "findings": {
                board.name: found
                for board in boards
                if runs_on(one.name, board.artefacts)
                and (found := sum(len(lint(graph, one.precision, board)) for graph in graphs))
            },
            "findings_anywhere": sum(len(lint(graph, one.precision)) for graph in graphs),
            "ms": {},
        }
        folder = self.folder / f"{converter}-{one.name}"
        files = {one.entries[model]["file"]: data for model, data in one.data.items()}
        _write(folder, files)
        with tempfile.TemporaryDirectory() as pieces:
            kept = KeptPieces(Path(pieces), {})
            try:
                manifest, members, report = measure(
                    self.run, self.fitted, [one], [], kept, Steps(1), lambda: None, self._mark
                )
            except EdgeVeilError as error:
                return {**row, "refused": str(error)[:300]}
        _write(folder, {**members, "manifest.json": json.dumps(manifest).encode()})
        engine = runners.on_backend(self.fitted, one.entries, one.data)
        row["y"] = self.y(engine.run(self.x, self._draws))
        engine.close()
        row |= {"parity": report["parity"][0], "allowed": report["tolerance"][one.name]["allowed"]}
        return {**row, "vectors": len(report["golden"]["kept"]), "self_tests": []}

    def y(self, outputs: Mapping[str, np.ndarray]) -> float | None:
        """The share of samples whose y is right: in the label that is sent, or as D_y reads frames; None without both.

        Recorded draws take a donor among all, so that a codebook's frames are not those of its label.
        """
        facts = self.fitted.description()
        declared, values = as_received(facts["outputs"], facts["input"], self.fitted.tables, outputs)
        names = {one["kind"]: one["name"] for one in declared}
        if "label" in names:
            read = values[names["label"]].reshape(-1)
        elif "frame" in names:
            read = predict(self._target, self.run.dataset().unit(values[names["frame"]])).argmax(1)
        else:
            return None
        return float((read == self._part.y[: len(read)]).mean())

    def calls(self, row: Mapping[str, Any]) -> Iterator[tuple[str, Callable[[], Any]]]:
        """Each interpreter of this Python with a function that runs the row's file once on it; TFLite's own alone."""
        if "ms" not in row:
            return
        one = self._artefacts[row["converter"], row["artefact"]]
        for backend in available(one.format):
            if backend == "openvino" and one.format == "tflite":
                continue
            opened = [open_backend(one.format, one.data[m], one.entries[m], backend=backend) for m in one.data]
            calls = [each.bare_call(np.random.RandomState(0)) for each in opened]
            yield backend, functools.partial(_call_each, calls)


def _call_each(calls: Sequence[Callable[[], Any]]) -> None:
    for call in calls:
        call()


def _write(folder: Path, files: Mapping[str, bytes]) -> None:
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)


def _processor_s() -> float:
    both = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in both)


def _self_tests(rows: Sequence[dict[str, Any]], folder: Path) -> None:
    """Add to each file what the board's own self-test finds on every interpreter that reads it, here and in OLD."""
    by_folder = {str(folder / f"{row['converter']}-{row['artefact']}"): row for row in rows if "self_tests" in row}
    words = [json.dumps([(place, row["artefact"]) for place, row in by_folder.items()]), "0"]
    olds = [pythons.folder() / name / "bin" / "python" for name in OLD]
    with tempfile.TemporaryDirectory() as name:
        linked = str(link_packages(Path(name)).resolve())
        for python in [Path(sys.executable), *(one for one in olds if one.exists())]:
            command = [str(python), "-c", SELF_TEST, linked, *words]
            environment = {**os.environ, "OMP_NUM_THREADS": "1"}
            done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
            for line in done.stdout.splitlines():
                found = json.loads(line)
                by_folder[found.pop("folder")]["self_tests"].append(found)


@contextlib.contextmanager
def userland(work: Path) -> Iterator[list[str]]:
    """The words before Python's that run it in the emulated arm64 userland, with the wheels of ARM64 and what lies in
    ``work`` and in this checkout. Raises ``NoBoard`` where there can be none."""
    trees.need("unshare", "chroot", "mount")
    pristine = trees.tree(Path.home() / ".cache" / "edgeveil-boards", "userland")
    trees.register()
    with tempfile.TemporaryDirectory() as name:
        root, wheels = Path(name, "root"), Path(name, "wheels")
        trees.run(["cp", "-a", str(pristine), str(root)])
        words = ["download", "--no-deps", "--only-binary=:all:", "--python-version=3.11", "--implementation=cp"]
        words += [f"--platform={tag}_aarch64" for tag in ("manylinux2014", "manylinux_2_27", "manylinux_2_28")]
        words += [f"{one}=={importlib.metadata.version(one)}" for one in ARM64]
        trees.run([sys.executable, "-m", "pip", *words, "--dest", str(wheels)], timeout_s=600)
        packages = root / "opt" / "packages"
        for wheel in wheels.iterdir():
            with zipfile.ZipFile(wheel) as file:
                file.extractall(packages)
        bound = [str(work.resolve()), str(record.ROOT)]
        for place in bound:
            (root / place.lstrip("/")).mkdir(parents=True)
        enter = "".join(f'mount --bind "{place}" "{root}{place}" && ' for place in bound)
        enter += f'mount -t proc proc "{root}/proc" && exec chroot "{root}" /usr/bin/env -i "$@"'
        yield [
            "unshare",
            "--mount",
            "bash",
            "-c",
            enter,
            "userland",
            f"QEMU_CPU={trees.PROCESSOR}",
            "OMP_NUM_THREADS=1",
            "PYTHONPATH=/opt/packages",
            "python3",
        ]


def _tested_there(enter: Sequence[str], work: Path, row: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What ``SELF_TEST`` prints in the userland of each file of a recipe."""
    folder = (work / f"{row['recipe']}-files").resolve()
    files = [
        (str(folder / f"{one['converter']}-{one['artefact']}"), one["artefact"])
        for one in row["files"]
        if "self_tests" in one
    ]
    words = [*enter, "-c", SELF_TEST, str(record.ROOT / ".venv" / "src"), json.dumps(files), "5"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise DeviceFailed(f"the userland's Python ended with code {done.returncode}: {done.stderr[-300:]}")
    return [json.loads(line) for line in done.stdout.splitlines()]


def _in_turns(runs: Sequence[Callable[[], Any]]) -> list[float]:
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


def choices(rows: Sequence[Mapping[str, Any]], kind: str, recipe: str) -> list[dict[str, Any]]:
    """For each board and artefact of a recipe: the first choice, what fails, and the fastest of all that pass."""
    found = []
    for board in map(profiles.load, profiles.names()):
        for artefact in board.artefacts:
            form, _, precision = artefact.partition("-")
            if precision not in PRECISIONS or why_not(kind, artefact) is not None:
                continue
            first = next(one for one in (*board.converters, *USUAL) if CONVERTERS[one].facts["format"] == form)
            mine = [row for row in rows if row["artefact"] == artefact]
            why = {row["converter"]: _why_not(row, board) for row in mine}
            on = next(one.name for one in board.backends if artefact in one.artefacts)
            ms = {row["converter"]: row["ms"].get(on, row["ms"][available(form)[0]]) for row in mine if row.get("ms")}
            passing = {name: ms[name] for name, reason in why.items() if reason is None}
            fastest = min(passing, key=lambda name: passing[name], default=None)
            row = {"recipe": recipe, "board": board.name, "artefact": artefact, "first": first, "fastest": fastest}
            row["fails"] = {name: reason for name, reason in why.items() if reason is not None}
            row["times"] = passing[first] / passing[fastest] if first in passing and fastest else None
            found.append(row)
    return found


def _why_not(row: Mapping[str, Any], board: Profile) -> str | None:
    """Why a file does not pass for a board; None where it does: lint, and its interpreters in their versions."""
    if "refused" in row:
        return str(row["refused"])
    if count := row["findings"].get(board.name):
        return f"{count} findings of the lint"
    limits = {one.name: SpecifierSet(one.versions) for one in board.backends if row["artefact"] in one.artefacts}
    for one in (one for one in row["self_tests"] if "refused" in one and one["backend"] in limits):
        version = one.get("version") or _asked_version(one["backend"], one["python"])
        if limits[one["backend"]].contains(version, prereleases=True):
            return str(one["refused"])
    return None


def _asked_version(backend: str, python: str) -> str:
    """The version of an interpreter that did not open: that of its environment's lock, or of this one."""
    asked = [one.split("==") for name in OLD for one in pythons.ROWS[name][1] if pythons.ROWS[name][0] == python]
    return next((version for name, version in asked if name == backend), None) or importlib.metadata.version(backend)


def by_board(every: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """For each board and artefact, over recipes: how often its first choice passes, and is as fast as any that does."""
    groups: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for row in every:
        groups.setdefault((row["board"], row["artefact"]), []).append(row)
    found = []
    for (board, artefact), rows in sorted(groups.items()):
        passing = [row for row in rows if row["times"] is not None]
        slower = [row for row in passing if row["times"] > CLOSE]
        facts = {"board": board, "artefact": artefact, "first": rows[0]["first"], "recipes": len(rows)}
        facts |= {"pass": len(passing), "fastest": len(passing) - len(slower)}
        facts |= {"times": float(np.median([row["times"] for row in passing])) if passing else None}
        found.append({**facts, "faster": dict(Counter(row["fastest"] for row in slower))})
    return found


def on_arm64(recipes: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """For each artefact in the emulated userland: its files, those that fail, and each converter's share of the least
    time of a recipe, in the median over recipes. qemu's times are no board's."""
    found: dict[str, dict[str, Any]] = {}
    for recipe in recipes:
        tests = [(row, one) for row in recipe.get("files", ()) for one in row.get("self_tests", ()) if "machine" in one]
        for row, one in tests:
            facts = found.setdefault(row["artefact"], {"files": 0, "refused": [], "share": {}})
            facts["files"] += 1
            if "refused" in one:
                facts["refused"].append([recipe["recipe"], row["converter"], one["refused"]])
                continue
            alike = [other["ms"] for file, other in tests if file["artefact"] == row["artefact"] and "ms" in other]
            facts["share"].setdefault(row["converter"], []).append(min(alike) / one["ms"])
    for facts in found.values():
        facts["share"] = {name: round(float(np.median(shares)), 2) for name, shares in facts["share"].items()}
    return [{"artefact": name, **facts} for name, facts in sorted(found.items())]


def losses(recipes: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """For each converter, of its int8 files: what Keras reads of y less what they let read, over recipes."""
    found = []
    for name in CONVERTERS.kinds():
        rows = [one for one in recipes if one.get("y_keras") is not None and one["y_int8"].get(name) is not None]
        lost = {one["recipe"]: one["y_keras"] - one["y_int8"][name] for one in rows}
        if lost:
            most = max(lost, key=lambda recipe: lost[recipe])
            facts = {"converter": name, "recipes": len(lost), "mean": float(np.mean([*lost.values()]))}
            found.append({**facts, "most": lost[most], "of": most})
    return found


def main() -> int:
    """Record the recipes that were named, or all, with those that are finished."""
    names = Recipe.names()
    script = record.Script(__file__, __doc__, "digits-prgan wifi-codebook", out=OUT)
    script.add_argument("recipes", nargs="*", default=names, metavar="RECIPE", help="left out: all that ship")
    script.add_argument("--work", type=Path, default=WORK, help="folder of what is finished")
    script.add_argument("--without", nargs="*", default=[], help="converters that these recipes are not tried with")
    script.add_argument("--userland", action="store_true", help="test and time the files on emulated arm64, too")
    asked = script.parse_args()
    if unknown := [name for name in asked.recipes if name not in names]:
        script.error(f"expected names of {', '.join(names)}; got {', '.join(unknown)}")
    load_tensorflow()
    for name in asked.recipes:
        print(name, file=sys.stderr, flush=True)
        record.kept(asked.work / f"{name}.json", lambda one=name: figures(one, asked.work, asked.without))
    rows = [record.read(asked.work / f"{name}.json") for name in names]
    if asked.userland:
        with userland(asked.work) as enter:
            for row in (one for one in rows if "files" in one):
                print(row["recipe"], "on arm64", file=sys.stderr, flush=True)
                place = asked.work / f"{row['recipe']}.userland.json"
                for found in record.kept(place, lambda row=row: _tested_there(enter, asked.work, row)):
                    name = Path(found.pop("folder")).name
                    file = next(one for one in row["files"] if f"{one['converter']}-{one['artefact']}" == name)
                    file["self_tests"].append({**found, "machine": "emulated arm64"})
    here = record.here()
    packages = {name for kind in CONVERTERS.kinds().values() for name in kind.facts["packages"]} | {"openvino"}
    here["versions"] |= {name: importlib.metadata.version(name) for name in sorted(packages) if _is_installed(name)}
    facts = {**here, "seed": 0, "budget": "quick", "compared": COMPARED, "turns": TURNS, "close": CLOSE}
    every = [one for row in rows if "files" in row for one in choices(row["files"], row["kind"], row["recipe"])]
    facts["boards"] = by_board(every)
    facts["losses"] = losses([row for row in rows if row])
    facts["arm64"] = on_arm64(rows)
    facts["first_is_not_fastest"] = [one for one in every if one["times"] is None or one["times"] > CLOSE]
    facts["not_run"] = [name for name, row in zip(names, rows, strict=True) if not row]
    record.write(asked.out, script.path, {**facts, "recipes": [row for row in rows if row]})
    return 0


def _is_installed(name: str) -> bool:
    try:
        return bool(importlib.metadata.version(name))
    except importlib.metadata.PackageNotFoundError:
        return False


if __name__ == "__main__":
    record.run(main)
