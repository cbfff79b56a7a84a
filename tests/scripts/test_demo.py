"""scripts/demo and every verb, each line of what they print against the forms that are allowed, and what they make."""

import json
import re
import shutil

import numpy as np
import pytest

from edgeveil.edge_runtime.errors import LimitNotMet
from edgeveil.trainer.audit.findings import Finding
from edgeveil.trainer.audit.sections.certificate_section import OVER_NULL
from edgeveil.trainer.recipe.schema import Recipe
from scripts.demo import counted
from tests.support.output import PROGRESS, command, on_terminal, packages_after, seen, strange

EDGEVEIL, EDGE = ("-m", "edgeveil.trainer.cli.main"), ("-m", "edgeveil.edge_runtime")
SHORT = ("-m", "tests.support.trial.short_audit")
DATA = r"digits: images of shape \(8, 8, 1\), 2 classes of y, 2 of z; rows: \d+ for the classifiers, .+ for the test"
VALIDATION = r"On validation: Acc\(D_y\) [\d.]+, mean distance [\d.]+, Acc\(D_z\) [\d.]+ against the fixed adversary .*"
TRAINING = (DATA, PROGRESS, VALIDATION)
EXPORTED = (
    r"digits-[a-z]+: [a-z\d, -]+",
    r"  [a-z\d-]+ +(tflite|onnx)-(int8|float\d\d) +exported[;,] .+",
    "Compared with Keras, in units of x':",
    r"  (tflite|onnx)-\S+ +off by at most .+",
)
DEVELOPMENT = r"\*\*\* DEVELOPMENT BUNDLE: .+ \*\*\*"
INVALID = "error: these figures are INVALID: .+"  # on a machine that does other work too


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    """(folder, completed process) of the demo on its small budget, without a terminal."""
    out = tmp_path_factory.mktemp("demo") / "out"
    return out, command("scripts/demo.py", "--quick", "--out", out)


def test_a_run_is_reported_and_listed_without_tensorflow(demo, tmp_path):
    out, _ = demo
    report = ["report", out / "run", "--export", out / "export", "--out", tmp_path / "report.html"]
    for words in (report, ["runs", "list", out], ["estimate", out / "export", "--for", "raspberry-pi-cpu"]):
        ((code, packages),) = packages_after([words], tmp_path)
        assert code == 0, words
        assert not packages & {"tensorflow", "keras"}, words


def test_the_demo_says_its_steps_progress_and_what_to_open(demo):
    out, done = demo
    assert done.returncode == 0, done.stderr
    steps = re.findall(r"^\[(\d)/9 +\d+\.\d s\]  .+$", done.stderr, re.MULTILINE)
    assert steps == list("123456789")
    forms = (r"\[\d/9 +\d+\.\d s\]  .+", *TRAINING, *EXPORTED, DEVELOPMENT, INVALID)
    assert strange(done.stderr, *forms, r"frames in \d+, out \d+, dropped \{\}") == []
    assert done.stdout.splitlines()[-1] == f"Open {out}/report.html"
    assert (out / "report.html").is_file()


def test_the_demo_says_what_is_counted_where_no_attack_is_sure(demo):
    out, done = demo
    document = json.loads((out / "audit.json").read_text())
    assert counted(document) in done.stdout
    leaks = Finding("z", OVER_NULL, "bits-counted", 0.031, (0.01, 0.05), null=0.0, rows=450)
    assert "Counted on 450 test rows, its codes tell +0.031 [+0.010, +0.050] bits" in counted(
        {"findings": [leaks.as_json()]}
    )
    assert "not counted" in counted({"findings": []})


@pytest.fixture(scope="module")
def made(demo, tmp_path_factory):
    """The demo's folder, for verbs that read a run, an export or a bundle; copied, so that they may write to it."""
    folder = tmp_path_factory.mktemp("verbs") / "out"
    shutil.copytree(demo[0], folder)
    recipe = Recipe.text("digits-label-only").replace("classifier_epochs = 90", "classifier_epochs = 9")
    (folder / "short.toml").write_text(recipe)
    np.savez(folder / "few.npz", x=np.load(folder / "frames.npz")["x"][:20])
    return folder


def verb(folder, *words):
    """``words`` with OUT for the folder; the completed process, which must have ended well."""
    done = command(*(str(word).replace("OUT", str(folder)) for word in words))
    assert done.returncode in (0, LimitNotMet.exit_code if "bench" in words else 0), done.stderr
    assert done.stdout or done.stderr
    return done


LABEL_ONLY = ("train", "digits-label-only", "--budget", "quick", "--classifiers", "OUT/prgan", "--out")
BUNDLE = ("OUT/demo.veil", "--trust", "OUT/trust")
VERBS = {
    "train": ((*EDGEVEIL, *LABEL_ONLY, "OUT/lo"), TRAINING, r"The run is in \S+\. Next: edgeveil export .+"),
    "export": (
        (*EDGEVEIL, "export", "OUT/run", "--for", "workstation", "--out", "OUT/again"),
        (PROGRESS, *EXPORTED),
        r"The artefacts are in \S+\. Next: edgeveil audit .+",
    ),
    "audit": (
        (*SHORT, *EDGEVEIL, "audit", "OUT/export", "--budget", "quick", "--replace"),
        (PROGRESS, r"Wrote \S+audit\.json\. Next: edgeveil seal .+"),
        r"Every table: edgeveil audit \S+ --full",
    ),
    "keygen": (
        (*EDGEVEIL, "keygen", "OUT/more", "--development"),
        (r"Wrote \S+signing\.key \(mode 600: keep it secret\) and \S+signing\.pub\.",),
        "Next: edgeveil seal .+",
    ),
    "seal": (
        (*EDGEVEIL, "seal", "OUT/export", "--key", "OUT/keys/signing.key", "--out", "OUT/more.veil"),
        (),
        r"Sealed \S+more\.veil\. Next: edgeveil bundle verify .+",
    ),
    "sweep": (
        (*EDGEVEIL, "sweep", "OUT/short.toml", "--budget", "quick", "--attacks", "codes", "--out", "OUT/sweep"),
        (r"\d points?, 0 of them done before; each is in \S+", PROGRESS),
        r"All figures are in \S+\. Open \S+frontier\.svg or \S+frontier\.png",
    ),
    "report": (
        (*EDGEVEIL, "report", "OUT/run", "--export", "OUT/export", "--out", "OUT/more.html"),
        (),
        r"Wrote the report\. Open \S+more\.html",
    ),
    "bundle verify": ((*EDGEVEIL, "bundle", "verify", *BUNDLE), (), None),
    "verify": ((*EDGE, "verify", *BUNDLE), (DEVELOPMENT,), None),
    "run": (
        (*EDGE, "run", *BUNDLE, "--source", "npz:OUT/few.npz", "--sink", "npz:OUT/perturbed-few.npz"),
        (DEVELOPMENT,),
        None,
    ),
    "bench": (
        (*EDGE, "bench", *BUNDLE, "--min-count", "50", "--min-seconds", "0.2"),
        (DEVELOPMENT, INVALID),
        None,
    ),
}


@pytest.mark.parametrize("name", VERBS)
def test_a_verb_says_what_was_made_and_what_to_do_next(made, name):
    words, forms, last = VERBS[name]
    done = verb(made, *words)
    assert strange(done.stderr, *forms, *([last] if last else [])) == []
    if last:
        assert re.fullmatch(last, done.stderr.splitlines()[-1])


def test_what_is_asked_for_as_json_is_one_document_on_stdout(made):
    done = verb(made, *EDGEVEIL, *LABEL_ONLY, "OUT/json", "--json")
    assert json.loads(done.stdout)
    assert strange(done.stderr, *TRAINING) == []


def test_on_a_terminal_one_line_moves(made, tmp_path):
    words = ("export", made / "run", "--for", "workstation", "--out", tmp_path / "export")
    code, written = on_terminal(*EDGEVEIL, *words)
    assert code == 0
    assert written.count("\r") > 5  # it moves
    bar = r"export [━╸╺ ]+ \d+/8 [-\d:]+.*"
    lines = [line for line in seen(written) if line.strip()]
    last = r"The artefacts are in .+"
    assert strange(lines, bar, *EXPORTED, last, r"\S+/export --artefact \S+") == []
    assert any(re.fullmatch(bar, line) and "8/8" in line for line in lines)
