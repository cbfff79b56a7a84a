"""The main job on an embedded default, from data to a report: what ``edgeveil demo`` runs.

Digits that it draws itself, enough for a verdict; keeps parity, hides "less than five". Two perturbers are
trained and attacked: the paper's generator, and the codebook that is recommended instead. One picture and five lines
say why; what is sealed, run and benchmarked is the codebook.
"""

import json
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from edgeveil.devices.zipapp import build_zipapp
from edgeveil.edge_runtime.errors import BadInput, DeviceFailed
from edgeveil.trainer.audit.audit import audit
from edgeveil.trainer.audit.document import save
from edgeveil.trainer.audit.findings import LABEL_ONLY, RAW, about_label_only, findings
from edgeveil.trainer.audit.sections.certificate_section import OVER_NULL
from edgeveil.trainer.audit.verdict import words
from edgeveil.trainer.export.export import export
from edgeveil.trainer.export.folder import ExportFolder
from edgeveil.trainer.perturbers.label_only import from_classifier
from edgeveil.trainer.recipe.schema import Recipe
from edgeveil.trainer.report import pictures
from edgeveil.trainer.report.frontier import through, write_report
from edgeveil.trainer.runs.run import Run
from edgeveil.trainer.sealing.seal import keygen, seal
from edgeveil.trainer.train import train

RECIPES = ("drawn-prgan", "drawn-codebook")
PROFILES = ["coral-dev-board", "raspberry-pi3-ncs2", "jetson-nano", "raspberry-pi-cpu", "workstation"]
ARTEFACT = "tflite-int8"
STEPS = 9
SHOWN = 8  # test digits in the picture


def step(number: int, title: str, started: float) -> None:
    """Say on stderr which of the steps begins, and when."""
    print(f"\n[{number}/{STEPS}  {time.monotonic() - started:5.1f} s]  {title}", file=sys.stderr)


def edge(pyz: Path, *arguments: str) -> str:
    """Run the zipapp that boards run, and return its JSON; what it says goes to stderr as it comes."""
    command = [sys.executable, str(pyz), *arguments, "--json"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)  # noqa: S603 - ours
    if done.returncode not in (0, 3):
        raise DeviceFailed(f"The edge runtime ended with code {done.returncode}: {' '.join(command)}")
    return done.stdout


def demo(out: Path, *, quick: bool, seed: int = 0) -> str:
    """Fill ``out`` with the run, export, keys, bundle and results; returns the closing words.

    ``seed`` is that of slices, trainings and audits; the digits are always the same.
    """
    started = time.monotonic()
    if out.exists() and not (out / "prgan").is_dir() and (not out.is_dir() or any(out.iterdir())):
        raise BadInput(f"{out} was expected to be new or of an earlier demo, and holds something else. Name another.")
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)

    budget = "quick" if quick else "full"
    prgan, codebook = (Recipe.find(name).model_copy(update={"seed": seed}) for name in RECIPES)
    step(1, "train the paper's PR-GAN on digits that are drawn here: keep parity, hide 'less than five'", started)
    paper = train(prgan, out / "prgan", budget=budget)

    step(2, "train a codebook for the same, which sends one of a few codes for each digit", started)
    run = train(codebook, out / "run", budget=budget, classifiers=paper.folder)

    step(3, f"export it for {', '.join(PROFILES)}", started)
    folder = export(run.folder, PROFILES, out / "export")
    print(folder.text(), file=sys.stderr)
    export(paper.folder, ["workstation"], out / "prgan-export")

    step(4, f"audit {ARTEFACT} of both: adversaries fixed, transfer and adaptive, next to label-only", started)
    # What it compares was fixed beforehand, however often it is run.
    asked: dict[str, Any] = {"artefact": ARTEFACT, "budget": "quick", "seed": seed, "looks": 0}
    beside = audit(out / "prgan-export", **asked)
    save(beside, out / "prgan-export")
    document = audit(out / "export", **asked, label_only=about_label_only(beside))
    save(document, out / "export")
    shutil.copyfile(out / "export" / "audit.json", out / "audit.json")
    (out / "comparison.png").write_bytes(compared(paper, beside, run, document, out))

    step(5, "make a development key and seal the bundle", started)
    public = keygen(out / "keys", development=True)
    trust = out / "trust"
    trust.mkdir()
    shutil.copyfile(public, trust / "demo.pub")
    bundle = seal(out / "export", out / "keys" / "signing.key", out / "demo.veil")

    pyz = build_zipapp(out / "edgeveil-edge.pyz")
    common = (str(bundle), "--trust", str(trust))
    step(6, "verify it as a board does", started)
    edge(pyz, "verify", *common)

    step(7, "run it over the test digits", started)
    test = run.dataset().part("test")
    np.savez_compressed(out / "frames.npz", x=test.x)
    summary = edge(
        pyz, "run", *common, "--source", f"npz:{out / 'frames.npz'}", "--sink", f"npz:{out / 'perturbed.npz'}"
    )
    counts = json.loads(summary)
    print(f"frames in {counts['frames_in']}, out {counts['frames_out']}, dropped {counts['dropped']}", file=sys.stderr)

    step(8, "benchmark it", started)
    (out / "bench.json").write_text(edge(pyz, "bench", *common, "--artefact", ARTEFACT))

    step(9, "write the report", started)
    write_report(
        run=out / "run",
        export=out / "export",
        bundle=bundle,
        bench=out / "bench.json",
        out=out / "report.html",
        pictures=True,
        comparison=(out / "comparison.png", pictures.why(beside, document)),
    )
    return closing(out, beside, document, time.monotonic() - started)


def compared(paper: Run, beside: dict, run: Run, document: dict, out: Path) -> bytes:
    """Some test digits as they are, as both perturbers send them, and as label-only does, with what was found of each.

    The documents are the audits of the exports of ``paper`` and ``run``.
    """
    dataset = run.dataset()
    test = dataset.part("test")
    rows = np.random.default_rng(3).permutation(len(test))[:SHOWN]
    x = test.x[rows[np.argsort(test.y[rows], kind="stable")]]
    floor = from_classifier(dataset.for_training(), paper.classifiers()["target"])
    sent = [through(ExportFolder.open(out / name), ARTEFACT, x) for name in ("prgan-export", "export")]
    return pictures.draw(
        dataset.input,
        [
            pictures.Row("x, the digits themselves", x, document, RAW),
            pictures.Row("PR-GAN's x'", sent[0], beside, kept=pictures.kept(beside)),
            pictures.Row("the codebook's x'", sent[1], document, kept=pictures.kept(document)),
            pictures.Row("label-only: the floor", floor.perturb(x)["frame"], document, LABEL_ONLY, {}),
        ],
        target=document["data"]["target"],
        sensitive=document["data"]["sensitive"],
    )


def closing(out: Path, beside: dict, document: dict, seconds: float) -> str:
    """The honest sentences, where everything lies, and three commands to try."""
    story = "\n".join(pictures.why(beside, document))
    return f"""
PR-GAN: {words(beside)}.

The codebook: {words(document)}.

{counted(document)}

{story}

Done in {seconds:.0f} s. {out}/ holds
  report.html    one page: pictures, numbers, curves          comparison.png  what both send, and who still reads it
  demo.veil      the codebook as a signed bundle (development key: every runtime says so)
  audit.json     the privacy numbers of the codebook          bench.json   its speed on this machine
  prgan-export/  the paper's generator and its audit.json     trust/       the public key that a board would hold

Try next
  edgeveil bundle inspect {out}/demo.veil --trust {out}/trust
  edgeveil train digits-label-only
  edgeveil recipe new YOUR.npz

Open {out}/report.html"""


def counted(document: dict) -> str:
    """What the codes of the test rows tell about z when they are counted, beyond the same with z shuffled.

    An attack has to learn first; a count needs no training.
    """
    bits = next((one for one in findings(document) if one.name == OVER_NULL and one.figure), None)
    if bits is None:
        return "Its codes were not counted: there are too few test rows for a certificate."
    return f"Counted on {bits.rows} test rows, its codes tell {bits.shown()} bits about what is hidden beyond chance."
