"""How fast the runtime is on its own: first frame, import, small models, one cleaned vector; this version and the last.

Everything is measured in processes of its own, this version, an earlier one out of the history of the checkout and what
both are compared with, in turns, on one thread. Packages are compiled, as an installer leaves them. Times are of the
processor, which other work on the machine changes little; of single frames medians, and of vectors the least.

* ``start``: import, open and first frame of the sealed bundle, next to the same artefact on the bare interpreters, as
  their documentation shows them; also by the one file that a board gets, which is compiled at every start.
* ``import``: the runtime's public interface next to numpy alone, the least of each.
* ``frames``: what stands around the interpreter of a frame, one at a time: p50 less the interpreter's own p50; and of
  the whole loop at full speed, its three threads and their hand-offs included, less the same.
* ``cleaner``: one vector of 294 features, rank 5, next to its two matrix products.

A first run makes the untrained networks of capture_loop.py in --work. Exit code 3 where a goal is not met.
Records docs/results/bench/edge-speed.json.
"""

import io
import json
import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

from edgeveil.devices.zipapp import build_zipapp
from edgeveil.edge_runtime import machine
from edgeveil.edge_runtime.backends.select import backends_for
from edgeveil.edge_runtime.errors import BadInput, DeviceFailed
from edgeveil.trainer.cli import bench_command
from scripts import record
from scripts.measure import capture_loop

RESULT = Path("docs/results/bench/edge-speed.json")
BEFORE = "e1e110d"  # the last version before the hot path and the start were looked at
ROOMS = ("edge_runtime", "trainer/__init__.py", "trainer/linear*")  # a folder in older versions
GOALS = {"start": 1.4, "import": 1.15, "frames": 60.0, "cleaner": 0.5}  # ratios; microseconds; a share
SMALL = ("28 x 28", "520 access points")
BEGIN = "import json, sys, time\nspec, began = json.loads(sys.argv[1]), time.process_time()\n"
SAY = "def say():\n    print(json.dumps({'ms': (time.process_time() - began) * 1e3, **marks}))\n"
START = """
import numpy as np
marks["numpy_ms"] = (time.process_time() - began) * 1e3
from edgeveil.edge_runtime.api import Perturber, RawFrame
marks["import_ms"] = (time.process_time() - began) * 1e3 - marks["numpy_ms"]
with Perturber.open(spec["bundle"], trust=spec["trust"], artefact=spec["artefact"], backend=spec["backend"]) as opened:
    marks["open_ms"] = (time.process_time() - began) * 1e3 - marks["numpy_ms"] - marks["import_ms"]
    source = opened.manifest.input
    opened.perturb(RawFrame(np.zeros(source.shape, source.dtype), 0))
    say()
"""
FRAMES = """
import numpy as np
from edgeveil.edge_runtime.backends import open_backend
from edgeveil.edge_runtime.bench import loop_rate, protocol
from edgeveil.edge_runtime.bundle.reader import Bundle
from edgeveil.edge_runtime.manifest.manifest import parse
from edgeveil.edge_runtime.pipeline.perturber import Perturber
from edgeveil.edge_runtime.pipeline.pipeline import Pipeline
if "trust" in spec:
    made = Perturber.open(spec["bundle"], trust=spec["trust"], artefact=spec["artefact"])
else:
    manifest = parse(json.loads(open(spec["bundle"] + ".json").read()))
    entry = manifest.models["generator"].artefacts[spec["artefact"]].entry
    backend = open_backend("tflite", open(spec["bundle"] + ".tflite", "rb").read(), entry, backend="ai-edge-litert")
    pipeline = Pipeline(manifest, tables={}, runners={"generator": backend})
    made = Perturber(Bundle(manifest, {}, "", "", False), pipeline, spec["artefact"], 0.0, "cpu", False)
frames = protocol.synthetic_frames(made.manifest.input)
(runner,) = made.pipeline.runners.values()
bare = runner.bare_call(np.random.RandomState(0))
def p50(call):
    taken = []
    for turn in range(3000):
        before = time.perf_counter()
        call(turn)
        taken.append(time.perf_counter() - before)
    return float(np.median(taken[500:])) * 1e6
one = p50(lambda turn: made.perturb(frames[turn % len(frames)]))
inner = p50(lambda turn: bare())
before = time.process_time()
loop = loop_rate.measure(made, frames, 0.3)["count"]
loop = (time.process_time() - before) / loop * 1e6
print(json.dumps({"interpreter_us": inner, "added_us": one - inner, "loop_added_us": loop - inner}))
"""
CLEANER = """
import numpy as np
from edgeveil.trainer.linear import algorithm1
rng = np.random.default_rng(0)
a_d, a_c = rng.normal(size=(294, 5)) / np.sqrt(294), rng.normal(size=(294, 3))
cleaner = algorithm1(a_d, a_c, eps=0.05).astype(np.float32)
x = rng.normal(size=(2000, 294)).astype(np.float32)
out = np.empty_like(x)
def products(row, out):
    np.matmul(row @ cleaner.encoder, cleaner.decoder.T, out=out)
best = {}
for _ in range(9):
    for name, way in (("products_us", products), ("cleaner_us", cleaner.clean)):
        before = time.perf_counter()
        for row in range(len(x)):
            way(x[row : row + 1], out[row : row + 1])
        best[name] = min(best.get(name, 9.0), (time.perf_counter() - before) / len(x))
print(json.dumps({name: seconds * 1e6 for name, seconds in best.items()}))
"""

# Each interpreter as its own documentation shows it, on one frame of zeros.
BARE = {
    "ai-edge-litert": """
import numpy as np
from ai_edge_litert.interpreter import Interpreter
i = Interpreter(model_path=spec["file"], num_threads=1)
i.allocate_tensors()
for d in i.get_input_details():
    i.set_tensor(d["index"], np.zeros(d["shape"], d["dtype"]))
i.invoke()
out = [i.get_tensor(d["index"]) for d in i.get_output_details()]
say()
""",
    "onnxruntime": """
import numpy as np
import onnxruntime
o = onnxruntime.SessionOptions()
o.intra_op_num_threads = 1
s = onnxruntime.InferenceSession(spec["file"], o, providers=["CPUExecutionProvider"])
out = s.run(None, {i.name: np.zeros(i.shape, np.float32) for i in s.get_inputs()})
say()
""",
    "openvino": """
import numpy as np
import openvino
m = openvino.Core().compile_model(spec["file"], "CPU", {"INFERENCE_NUM_THREADS": 1})
out = m([np.zeros(list(i.shape), i.element_type.to_dtype()) for i in m.inputs])
say()
""",
}
BARE["tflite-runtime"] = BARE["ai-edge-litert"].replace("ai_edge_litert", "tflite_runtime")


def compiled(cache: Path) -> dict[str, str]:
    """An environment on one thread whose modules are compiled into ``cache``, whatever this process does."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**environment, "PYTHONPYCACHEPREFIX": str(cache), "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


def packages(commit: str, folder: Path) -> Path:
    """A place to import that commit's runtime and cleaners from."""
    done = subprocess.run(["git", "archive", commit, *ROOMS], capture_output=True, check=False)
    if done.returncode:
        message = done.stderr.decode().strip()
        raise BadInput(f"{commit} was expected in the history of this checkout: {message}. Run git fetch --unshallow.")
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
        archive.extractall(folder / "edgeveil", filter="data")
    return folder


def child(python: str, code: str, spec: dict[str, Any], path: Path, cache: Path) -> dict[str, float]:
    """What a process that imports from ``path`` says of itself."""
    environment = {**compiled(cache), "PYTHONPATH": str(path)}
    command = [python, "-c", BEGIN + "marks = {}\n" + SAY + code, json.dumps(spec)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode:
        raise DeviceFailed((done.stderr.strip().splitlines() or ["a process said nothing"])[-1][:300])
    return json.loads(done.stdout.splitlines()[-1])


def small(work: Path) -> list[dict[str, str]]:
    """The untrained small networks, made once: a manifest and a file each, by the names of their places."""
    work.mkdir(parents=True, exist_ok=True)
    bundles = []
    for name in SMALL:
        for kind in capture_loop.PRECISIONS:
            place = work / f"{name} {kind}".replace(" ", "-")
            if not place.with_suffix(".tflite").exists():
                manifest, data = capture_loop.untrained(*capture_loop.networks()[name], kind)
                place.with_suffix(".json").write_text(json.dumps(manifest))
                place.with_suffix(".tflite").write_bytes(data)
            bundles.append({"input": name, "bundle": str(place), "artefact": f"tflite-{kind}"})
    return bundles


def medians(turns: list[dict[str, dict[str, float]]]) -> dict[str, dict[str, float]]:
    """Of each version, the median of each figure over the turns."""
    return {
        version: {name: round(median(turn[version][name] for turn in turns), 2) for name in turns[0][version]}
        for version in turns[0]
    }


def ratio(turns: list[dict[str, dict[str, float]]], version: str, beside: str, name: str = "ms") -> float:
    """The median of the ratios of neighbours."""
    return round(median(turn[version][name] / turn[beside][name] for turn in turns), 3)


class Sides:
    """The places that processes import from: ``before``, ``now`` and ``file``, which only ``start`` is measured by."""

    def __init__(self, commit: str, folder: Path, turns: int) -> None:
        self._cache, self._turns = folder / "cache", turns
        self._paths = {"before": packages(commit, folder / "before"), "now": packages("HEAD", folder / "now")}
        self._paths["file"] = build_zipapp(folder / "edgeveil-edge.pyz")

    def turns(self, codes: dict[str, str], spec: dict[str, Any], python: str = sys.executable) -> list[dict[str, Any]]:
        """For each turn what every process said; those named otherwise than a side import from ``now``."""
        all_turns = []
        for turn in range(-1, self._turns):  # the first turn compiles, and is not counted
            answers = {
                side: child(python, code, spec, self._paths.get(side, self._paths["now"]), self._cache)
                for side, code in codes.items()
            }
            if turn >= 0:
                all_turns.append(answers)
        return all_turns

    def both(self, code: str, spec: dict[str, Any]) -> list[dict[str, Any]]:
        """``turns`` of this version and the earlier one."""
        return self.turns({"before": code, "now": code}, spec)


def starts(sides: Sides, bundle: Path, trust: Path, folder: Path) -> list[dict[str, Any]]:
    """A row for each artefact and interpreter."""
    from edgeveil.edge_runtime.bundle.reader import read_bundle
    from edgeveil.edge_runtime.bundle.trust_store import open_trust

    rows = []
    for file in bench_command.bundle_files(read_bundle(bundle, open_trust(trust)), folder):
        path = Path(file["path"]).with_suffix("." + file["format"])  # OpenVINO tells formats apart by the name
        path.write_bytes(Path(file["path"]).read_bytes())
        for backend in backends_for(file["format"]):
            spec = {"file": str(path), "artefact": file["artefact"], "backend": backend}
            spec |= {"bundle": str(bundle), "trust": str(trust)}
            codes = {"bare": BARE[backend], "before": START, "now": START, "file": START}
            turns = sides.turns(codes, spec, str(bench_command.bench_python()))
            ratios = {side: ratio(turns, side, "bare") for side in ("before", "now", "file")}
            rows.append({"artefact": file["artefact"], "backend": backend, "ratio": ratios, **medians(turns)})
            print(rows[-1], file=sys.stderr)
    return rows


def main() -> int:
    """Measure and record."""
    script = record.Script(__file__, __doc__, "--bundle demo.veil --trust trust", out=RESULT)
    script.add_argument("--bundle", type=Path, required=True)
    script.add_argument("--trust", type=Path, required=True)
    script.add_argument("--before", default=BEFORE, help=f"the earlier version, a commit (default: {BEFORE})")
    script.add_argument("--turns", type=int, default=5)
    script.add_argument("--work", type=Path, default=Path("build/bench"))
    options = script.parse_args()
    bundle, trust = options.bundle.resolve(), options.trust.resolve()
    demo = {"input": bundle.stem, "bundle": str(bundle), "trust": str(trust), "artefact": "tflite-int8"}
    cases = [demo, *small(options.work.resolve())]
    with tempfile.TemporaryDirectory() as name:
        sides = Sides(options.before, Path(name), options.turns)
        start = starts(sides, bundle, trust, Path(name))
        imports = dict.fromkeys(("before", "now"), "import edgeveil.edge_runtime.api\nsay()")
        imported = [turn for _ in range(3) for turn in sides.turns({"numpy": "import numpy\nsay()", **imports}, {})]
        least = {side: round(min(turn[side]["ms"] for turn in imported), 2) for side in imported[0]}
        frames = [
            {"input": case["input"], "artefact": case["artefact"], **medians(sides.both(FRAMES, case))}
            for case in cases
        ]
        cleaner = medians(sides.both(CLEANER, {}))
    of_numpy = {side: round(least[side] / least["numpy"], 3) for side in ("before", "now")}
    share = {side: round(one["products_us"] / one["cleaner_us"], 3) for side, one in cleaner.items()}
    met = {
        "start": all(row["ratio"]["now"] <= GOALS["start"] for row in start),
        "import": of_numpy["now"] <= GOALS["import"],
        "frames": all(row["now"]["added_us"] <= GOALS["frames"] for row in frames),
        "cleaner": share["now"] >= GOALS["cleaner"],
    }
    document = {"kind": "edge-speed", "what": __doc__.splitlines()[0], "before": options.before}
    document |= {"turns": options.turns, "goals": GOALS, "met": met, "start": start, "frames": frames}
    document |= {"import": {"least_ms": least, "ratio": of_numpy}, "cleaner": {"share": share, **cleaner}}
    record.write(options.out, script.made_by(options), {**document, "load": machine.load(), **record.here()})
    print(json.dumps(met))
    return 0 if all(met.values()) else 3


if __name__ == "__main__":
    record.run(main)
