"""What it costs to begin: import, open and first frame, and peak memory, beside the bare interpreter; int8 / float32.

Each figure is a process of its own in the ``bench`` environment, both kinds in turns: one imports numpy and the
interpreter, opens the artefact's bytes and runs it once; the other opens the sealed bundle (signature, hashes, golden
self-test) and perturbs one frame. Ratios are medians over turns. Latency ratios int8 / float32 are read from the result
of ``edgeveil bench --against``, or of papers/tables_3_4.py, so that is to run first. Takes half a minute; begins once
the machine is quiet, ends with exit code 3 where it does not become so or something else ran meanwhile. Records
docs/results/bench/start.json.

With --import, instead, `import edgeveil.edge_runtime.api` beside `import numpy`: the least of 25 processes each, from
compiled files, as an installer leaves them. Exit code 3 where the ratio is above 1.15. Records
docs/results/import_time.json.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from edgeveil.edge_runtime import machine
from edgeveil.edge_runtime.backends.select import backends_for
from edgeveil.trainer import benchmark
from scripts.reproduce import record

RESULT = Path("docs/results/bench/start.json")
TABLES = Path("docs/results/bench/tables-3-4.json")
IMPORT = Path("docs/results/import_time.json")
CACHE = Path("build/compiled").resolve()
IMPORT_LIMIT, IMPORT_ROUNDS = 1.15, 25
COMMON = """
import json, sys, time
began = time.perf_counter()
spec = json.loads(sys.argv[1])
def say():
    ms = (time.perf_counter() - began) * 1e3
    from edgeveil.edge_runtime.machine import peak_rss_bytes
    print(json.dumps({"ms": ms, "peak": peak_rss_bytes()}))
"""
OURS = """
import numpy as np
from edgeveil.edge_runtime.api import Perturber, RawFrame
with Perturber.open(spec["bundle"], trust=spec["trust"], artefact=spec["artefact"], backend=spec["backend"]) as opened:
    source = opened.manifest.input
    opened.perturb(RawFrame(np.zeros(source.shape, source.dtype), 0))
    say()
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
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "PYTHONPYCACHEPREFIX": str(cache), "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


def child(python: Path, code: str, spec: dict[str, Any]) -> dict[str, float] | str:
    """What a process says of itself, or its last line where it failed."""
    command = [str(python), "-c", COMMON + code, json.dumps(spec)]
    with tempfile.TemporaryDirectory() as folder:
        environment = {**compiled(CACHE), "PYTHONPATH": str(benchmark.link_packages(Path(folder)))}
        try:
            done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
        except subprocess.TimeoutExpired:
            return "it did not end within 300 s"
    if done.returncode:
        return (done.stderr.strip().splitlines() or ["it said nothing"])[-1][:200]
    return json.loads(done.stdout.splitlines()[-1])


def row(python: Path, spec: dict[str, Any], turns: int) -> dict[str, Any]:
    """One artefact on one interpreter, in turns."""
    facts = {"artefact": spec["artefact"], "backend": spec["backend"]}
    pairs = []
    for _ in range(turns):
        pair = child(python, BARE[spec["backend"]], spec), child(python, OURS, spec)
        for one in pair:
            if isinstance(one, str):
                return {**facts, "refused": one}
        pairs.append(pair)
    for name in ("ms", "peak"):
        bare, ours = (statistics.median(p[k][name] for p in pairs) for k in (0, 1))
        facts |= {f"bare_{name}": round(bare, 1), f"ours_{name}": round(ours, 1)}
        facts[f"ratio_{name}"] = round(statistics.median(p[1][name] / p[0][name] for p in pairs), 3)
    return facts


def precision_ratios(path: Path) -> list[dict[str, Any]]:
    """int8 over float32 latency for each network and interpreter of a recorded result, from rounds in pairs."""
    if not path.exists():
        return []
    document = json.loads(path.read_text())
    rows = []
    for group in document.get("groups", {"": document}).values():
        for one in group["rows"]:
            if not one["artefact"].endswith("int8"):
                continue
            kind = one["artefact"].partition("-")[0]
            key = (one["name"], f"{kind}-float32", one["backend"])
            base = [r for r in group["rows"] if (r["name"], r["artefact"], r["backend"]) == key]
            if base:
                each = [a / b for a, b in zip(one["round_ms"], base[0]["round_ms"], strict=True)]
                facts = {"network": one["name"], "format": kind, "backend": one["backend"]}
                rows.append(facts | {"int8_over_float32": round(statistics.median(each), 3)})
    return list({(r["network"], r["format"], r["backend"]): r for r in rows}.values())


def import_seconds(module: str) -> float:
    """What one import takes in a process of its own, interpreter start not included."""
    code = f"import time; t = time.perf_counter(); import {module}; print(time.perf_counter() - t)"
    command, environment = [sys.executable, "-c", code], compiled(CACHE)
    return float(subprocess.run(command, env=environment, capture_output=True, check=True).stdout)


def import_time(rounds: int = IMPORT_ROUNDS) -> dict[str, Any]:
    """Least times of both imports in milliseconds, in turns, and their ratio."""
    ours = "edgeveil.edge_runtime.api"
    for module in ("numpy", ours):
        import_seconds(module)  # compiles what is not compiled yet
    pairs = [(import_seconds("numpy"), import_seconds(ours)) for _ in range(rounds)]
    numpy_s, ours_s = (min(taken) for taken in zip(*pairs, strict=True))
    return {
        "what": f"import {ours} against import numpy: fresh processes in turns, least of each",
        "rounds": rounds,
        "numpy_ms": round(numpy_s * 1e3, 2),
        "edge_runtime_ms": round(ours_s * 1e3, 2),
        "ratio": round(ours_s / numpy_s, 3),
        "limit": IMPORT_LIMIT,
        "machine": machine.facts(),
    }


def main() -> int:
    """Measure and record."""
    script = record.Script(__file__, __doc__, "--bundle mnist.veil --trust trust", timing=True)
    script.add_argument("--import", dest="imports", action="store_true", help="time the imports alone")
    script.add_argument("--bundle", type=Path)
    script.add_argument("--trust", type=Path)
    script.add_argument("--turns", type=int, default=7)
    script.add_argument("--tables", type=Path, default=TABLES)
    script.add_argument("--work", type=Path, default=Path("build/bench"))
    script.add_argument("--out", type=Path, help=f"the record (default: {RESULT}, or {IMPORT})")
    options = script.parse_args()
    if options.imports:
        found = import_time()
        record.write(options.out or IMPORT, script.made_by(options), found)
        print("{edge_runtime_ms} ms, {ratio} x numpy's {numpy_ms} ms".format(**found))
        return 0 if found["ratio"] <= IMPORT_LIMIT else 3
    if options.turns < 1 or not (options.bundle and options.trust):
        script.error("--import, or --bundle and --trust and at least 1 turn were expected")
    from edgeveil.edge_runtime.bundle.reader import read_bundle
    from edgeveil.edge_runtime.bundle.trust_store import open_trust

    python = benchmark.bench_python()
    options.work.mkdir(parents=True, exist_ok=True)
    bundle = read_bundle(options.bundle, open_trust(options.trust))
    watch = record.watch(options)
    rows = []
    for file in benchmark.bundle_files(bundle, options.work):
        # OpenVINO tells formats apart by the name.
        path = Path(file["path"]).with_suffix("." + file["format"])
        path.write_bytes(Path(file["path"]).read_bytes())
        for backend in backends_for(file["format"]):
            spec = {"file": str(path), "artefact": file["artefact"], "backend": backend}
            spec |= {"bundle": str(options.bundle.resolve()), "trust": str(options.trust.resolve())}
            rows.append(row(python, spec, options.turns))
            print(f"{len(rows)}: {rows[-1]}", file=sys.stderr)
    judged = record.verdict(watch.use())
    document = {
        "kind": "start",
        **judged,
        "what": __doc__.splitlines()[0],
        "turns": options.turns,
        "rows": rows,
        "precision": precision_ratios(options.tables),
        "load": machine.load(),
        "machine": machine.facts(),
    }
    record.write(options.out or RESULT, script.made_by(options), document)
    print(judged["verdict"], *judged["reasons"])
    return 3 if judged["reasons"] else 0


if __name__ == "__main__":
    record.run(main)
