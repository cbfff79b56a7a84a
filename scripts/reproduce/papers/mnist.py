"""MNIST end to end: train, export all, audit, seal, run, bench; records docs/results/privacy/mnist-prgan.json.

The table in docs/results/mnist.md is generated from that file by pages/write_pages.py.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np

from edgeveil.edge_runtime.errors import DeviceFailed
from edgeveil.trainer.audit.audit import audit
from edgeveil.trainer.audit.document import save
from edgeveil.trainer.export.export import export
from edgeveil.trainer.recipe.schema import Recipe
from edgeveil.trainer.runs.run import Run
from edgeveil.trainer.sealing.seal import keygen, seal
from edgeveil.trainer.train import train
from scripts.reproduce import record

RECORD = Path("docs/results/privacy/mnist-prgan.json")
ARTEFACTS = ["tflite-int8", "tflite-float32", "onnx-float32", "keras"]
PROFILES = ["coral-dev-board", "raspberry-pi3-ncs2", "jetson-nano", "raspberry-pi-cpu", "workstation"]


def edge(*arguments: str) -> dict:
    """The runtime's JSON answer to one command; its prose stays on stderr."""
    done = subprocess.run(
        [sys.executable, "-m", "edgeveil.edge_runtime", *arguments, "--json"], stdout=subprocess.PIPE, check=False
    )
    if done.returncode not in (0, 3):
        raise DeviceFailed(f"edge_runtime {arguments[0]} ended with code {done.returncode}.")
    return json.loads(done.stdout)


def main() -> None:
    """Do all of it in the folder that --out names; a finished training there is used again."""
    script = record.Script(__file__, __doc__, "--out runs/mnist")
    script.add_argument("--out", type=Path, default=Path("runs/mnist"))
    script.add_argument("--budget", choices=["quick", "thorough"], default="quick", help="how hard the adversaries try")
    options = script.parse_args()
    out: Path = options.out
    clock = {}

    folder = out / "run"
    run = Run.open(folder) if (folder / "perturber").is_dir() else train(Recipe.find("mnist-prgan"), folder)
    clock["train_s"] = sum(run.facts["wall_time_s"].values())  # what it took then, where it is used again

    started = time.monotonic()
    if not (out / "export").exists():
        export(folder, PROFILES, out / "export", all_formats=True)
    clock["export_s"] = time.monotonic() - started

    audits = {}
    for artefact in ARTEFACTS:
        started = time.monotonic()
        floor = next((document["label_only"] for document in audits.values()), None)
        asked = {"artefact": artefact, "budget": options.budget, "seed": 0, "label_only": floor}
        audits[artefact] = audit(out / "export", **asked, resume=True)
        clock[f"audit_{artefact}_s"] = time.monotonic() - started
    save(audits["tflite-int8"], out / "export")

    if not (out / "keys").exists():
        keygen(out / "keys", development=True)
    bundle = seal(out / "export", out / "keys" / "signing.key", out / "mnist.veil", replace=True)
    np.savez(out / "frames.npz", x=run.dataset().part("test").x[:2000])
    common = [str(bundle), "--trust", str(out / "keys")]
    result = {
        "recipe": "mnist",
        "training": run.summary(),
        "wall_time": {name: round(seconds, 1) for name, seconds in clock.items()},
        "audits": audits,
        "run": edge("run", *common, "--source", f"npz:{out / 'frames.npz'}", "--sink", f"npz:{out / 'perturbed.npz'}"),
        "bench": {name: edge("bench", *common, "--artefact", name) for name in ARTEFACTS if name != "keras"},
    }
    record.write(RECORD, script.made_by(options), result)
    print(f"Recorded {RECORD}", file=sys.stderr)


if __name__ == "__main__":
    record.run(main)
