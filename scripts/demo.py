"""The main job on an embedded default, from data to a report: what scripts/demo runs inside .venv.

scikit-learn's own handwritten digits; keeps parity, hides "less than five".
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np

from edge_runtime.errors import DeviceFailed, EdgeVeilError
from trainer.audit import audit, save
from trainer.export import export
from trainer.export.seal import keygen, seal
from trainer.export.zipapp import build_zipapp
from trainer.recipe import Recipe
from trainer.report.html import write_report
from trainer.report.sentence import sentence
from trainer.train import train

PROFILES = ["coral-dev-board", "raspberry-pi3-ncs2", "jetson-nano", "raspberry-pi-cpu", "workstation"]
ARTEFACT = "tflite-int8"


def step(number: int, title: str, started: float) -> None:
    """Say on stderr which of the eight steps begins, and when."""
    print(f"\n[{number}/8  {time.monotonic() - started:5.1f} s]  {title}", file=sys.stderr)


def edge(pyz: Path, *arguments: str) -> str:
    """Run the zipapp that boards run, and return its JSON; what it says goes to stderr as it comes."""
    command = [sys.executable, str(pyz), *arguments, "--json"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode not in (0, 3):
        raise DeviceFailed(f"The edge runtime ended with code {done.returncode}: {' '.join(command)}")
    return done.stdout


def demo(out: Path, *, quick: bool) -> str:
    """Fill ``out`` with the run, export, keys, bundle and results; returns the closing words."""
    started = time.monotonic()
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)

    step(1, "train a PR-GAN on scikit-learn's digits: keep parity, hide 'less than five'", started)
    run = train(Recipe.find("digits"), out / "run", budget="quick" if quick else "full")

    step(2, f"export for {', '.join(PROFILES)}", started)
    folder = export(out / "run", PROFILES, out / "export")
    print(folder.text(), file=sys.stderr)

    step(3, f"audit {ARTEFACT}: adversaries fixed, transfer and adaptive, beside label-only", started)
    document = audit(out / "export", artefact=ARTEFACT, budget="quick", seed=0)
    save(document, out / "export")
    shutil.copyfile(out / "export" / "audit.json", out / "audit.json")

    step(4, "make a development key and seal the bundle", started)
    public = keygen(out / "keys", development=True)
    trust = out / "trust"
    trust.mkdir()
    shutil.copyfile(public, trust / "demo.pub")
    bundle = seal(out / "export", out / "keys" / "signing.key", out / "demo.veil")

    pyz = build_zipapp(out / "edgeveil-edge.pyz")
    common = (str(bundle), "--trust", str(trust))
    step(5, "verify it as a board does", started)
    edge(pyz, "verify", *common)

    step(6, "run it over the test digits", started)
    test = run.dataset().part("test")
    np.savez_compressed(out / "frames.npz", x=test.x)
    summary = edge(
        pyz, "run", *common, "--source", f"npz:{out / 'frames.npz'}", "--sink", f"npz:{out / 'perturbed.npz'}"
    )
    counts = json.loads(summary)
    print(f"frames in {counts['frames_in']}, out {counts['frames_out']}, dropped {counts['dropped']}", file=sys.stderr)

    step(7, "benchmark it", started)
    (out / "bench.json").write_text(edge(pyz, "bench", *common, "--artefact", ARTEFACT))

    step(8, "write the report", started)
    write_report(
        run=out / "run",
        export=out / "export",
        bundle=bundle,
        bench=out / "bench.json",
        out=out / "report.html",
        pictures=True,
    )
    return closing(out, document, time.monotonic() - started)


def closing(out: Path, document: dict, seconds: float) -> str:
    """The honest sentence, where everything lies, and three commands to try."""
    return f"""
{sentence(document)}

Done in {seconds:.0f} s. {out}/ holds
  report.html    one page: numbers, pictures, curves
  demo.veil      the signed bundle (development key: every runtime says so)
  audit.json     the privacy numbers     bench.json  the speed on this machine
  trust/         the public key that a board would hold

Try next
  .venv/bin/edgeveil bundle inspect {out}/demo.veil --trust {out}/trust
  .venv/bin/edgeveil train digits-label-only --out runs/label-only
  .venv/bin/edgeveil recipe new --data npz:YOUR.npz --out yours.toml
"""


def main(arguments: list[str] | None = None) -> int:
    """Parse, run the demo, print its closing words; exit codes as for every command."""
    parser = argparse.ArgumentParser(prog="scripts/demo", description=__doc__, epilog="Example: scripts/demo --quick")
    parser.add_argument("--out", type=Path, default=Path("runs/demo"), help="folder to (re)write; default runs/demo")
    parser.add_argument("--quick", action="store_true", help="a small training budget: shows the way, not the numbers")
    options = parser.parse_args(arguments)
    try:
        print(demo(options.out, quick=options.quick))
    except EdgeVeilError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print(f"Interrupted; what was finished lies in {options.out}.", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
