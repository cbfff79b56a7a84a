"""scripts/demo and every verb, each line of what they print against the forms that are allowed, and what they make."""

import json
import re
import shutil

import numpy as np
import pytest

from edgeveil.edge_runtime.errors import LimitNotMet
from edgeveil.trainer.audit.findings import Finding
from edgeveil.trainer.audit.sections.certificate_section import OVER_NULL
from edgeveil.trainer.demo import counted
from edgeveil.trainer.report.pictures import why
from scripts.measure import demo_seeds
from scripts.record import ROOT
from tests.support import once
from tests.support.output import PROGRESS, command, in_process, packages_after, strange
from tests.support.small_runs import small_recipe, write_npz
from tests.support.trial import short_audit

EDGE = ("-m", "edgeveil.edge_runtime")
DATA = r"\S+: (images|vectors) of shape \(.+\), 2 classes of y, 2 of z; rows: \d+ for the classifiers, .+ for the test"
VALIDATION = r"On validation: y is read right [\d.]+ \(by .+\), mean distance [\d.]+, Acc\(D_z\) [\d.]+ .*"
MISSED = r"No checkpoint reached .+ The quick budget is a trial, so this is not an error\."
TRAINING = (DATA, PROGRESS, VALIDATION, MISSED)
EXPORTED = (
    r"drawn-[a-z]+: [a-z\d, -]+",
    r"  [a-z\d-]+ +(tflite|onnx)-(int8|float\d\d) +exported[;,] .+",
    "Compared with Keras, in units of x':",
    r"  (tflite|onnx)-\S+ +off by at most .+",
    r"int8 of [\w-]+ is furthest from float32 in .+",
    r"Made by [\w.-]+ \(.+\)",
    r"[a-z\d-]+: .+; for a new board take .+",
)
DEVELOPMENT = r"\*\*\* DEVELOPMENT BUNDLE: .+ \*\*\*"
LEAKS = r"note: drawn-codebook: its audit found that it leaks; its privacy card says what"  # at most: not in all seeds
INVALID = "error: these figures are INVALID: .+"  # on a machine that does other work too


@pytest.fixture(scope="module")
def demo():
    return once.demo()


def test_a_run_is_reported_and_listed_without_tensorflow(demo, tmp_path):
    out, _ = demo
    report = ["run", "report", out / "run", "--export", out / "export", "--out", tmp_path / "report.html"]
    lines = [["run", "list", out], ["board", "estimate", out / "export", "--for", "raspberry-pi-cpu"], report]
    for words, (code, packages) in zip(lines, packages_after(lines, tmp_path), strict=True):
        assert code == 0, words
        assert not packages & {"tensorflow", "keras"}, words


def test_the_demo_says_its_steps_progress_and_what_to_open(demo):
    out, done = demo
    assert done.returncode == 0, done.stderr
    steps = re.findall(r"^\[(\d)/9 +\d+\.\d s\]  .+$", done.stderr, re.MULTILINE)
    assert steps == list("123456789")
    forms = (r"\[\d/9 +\d+\.\d s\]  .+", *TRAINING, *EXPORTED, DEVELOPMENT, LEAKS, INVALID)
    assert strange(done.stderr, *forms, r"frames in \d+, out \d+, dropped \{\}") == []
    assert done.stdout.splitlines()[-1] == f"Open {out}/report.html"
    assert (out / "report.html").is_file()


def test_the_demo_says_what_is_counted_where_no_attack_is_sure(demo):
    out, done = demo
    document = json.loads((out / "audit.json").read_text())
    assert counted(document) in done.stdout
    assert "\n".join(why(json.loads((out / "prgan-export/audit.json").read_text()), document)) in done.stdout
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
    np.savez(folder / "few.npz", x=np.load(folder / "frames.npz")["x"][:20])
    (folder / "small.toml").write_text(small_recipe(write_npz(folder), kind="label-only").toml())
    return folder


@pytest.fixture
def verb(made, monkeypatch, capfd):
    """A function that runs words, with OUT for the folder, of edgeveil here and of others in a process: what it said.

    It must have ended well, and an audit is short.
    """
    short_audit.shorten(monkeypatch, families=short_audit.FEW)
    here = in_process(monkeypatch, capfd)

    def run(*words):
        words = [word.replace("OUT", str(made)) for word in words]
        if words[0] != "-m":
            code, out, err = here(*words)
        else:
            done = command(*words)
            code, out, err = done.returncode, done.stdout, done.stderr
        assert code in (0, LimitNotMet.exit_code if "bench" in words else 0), err
        assert out or err
        return out, err

    return run


TRAIN = ("train", "OUT/small.toml", "--budget", "quick", "--out")
BUNDLE = ("OUT/demo.veil", "--trust", "OUT/trust")
VERBS = {
    "train": ((*TRAIN, "OUT/lo"), TRAINING, r"The run is in \S+\. Next: edgeveil export .+"),
    "export": (
        ("export", "OUT/run", "--for", "coral-dev-board", "--out", "OUT/again"),
        (PROGRESS, *EXPORTED),
        r"The artefacts are in \S+\. Next: edgeveil audit .+",
    ),
    "audit": (
        ("audit", "OUT/export", "--budget", "quick", "--replace"),
        (PROGRESS, r"Wrote \S+audit\.json\. Next: edgeveil seal .+"),
        r"Every table: edgeveil audit \S+ --full",
    ),
    "keygen": (
        ("key", "new", "OUT/more", "--development"),
        (r"Wrote \S+signing\.key \(mode 600: keep it secret\) and \S+signing\.pub\.",),
        "Next: edgeveil seal .+",
    ),
    "seal": (
        ("seal", "OUT/export", "--key", "OUT/keys/signing.key", "--out", "OUT/more.veil"),
        (),
        r"Sealed \S+more\.veil\. Next: edgeveil bundle verify .+",
    ),
    "report": (
        ("run", "report", "OUT/run", "--export", "OUT/export", "--out", "OUT/more.html"),
        (),
        r"Wrote the report\. Open \S+more\.html",
    ),
    "bundle verify": (("bundle", "verify", *BUNDLE), (), None),
    "verify": ((*EDGE, "verify", *BUNDLE), (DEVELOPMENT, LEAKS), None),
    "run": (
        (*EDGE, "run", *BUNDLE, "--source", "npz:OUT/few.npz", "--sink", "npz:OUT/perturbed-few.npz"),
        (DEVELOPMENT, LEAKS),
        None,
    ),
    "bench": (
        (*EDGE, "bench", *BUNDLE, "--min-count", "50", "--min-seconds", "0.2"),
        (DEVELOPMENT, LEAKS, INVALID),
        None,
    ),
}


@pytest.mark.parametrize("name", once.nightly_but(VERBS, *VERBS.keys() - {"audit"}))  # by day the demo's own
def test_a_verb_says_what_was_made_and_what_to_do_next(verb, name):
    words, forms, last = VERBS[name]
    _, said = verb(*words)
    assert strange(said, *forms, *([last] if last else [])) == []
    if last:
        assert re.fullmatch(last, said.splitlines()[-1])


def test_what_is_asked_for_as_json_is_one_document_on_stdout(verb):
    out, said = verb(*TRAIN, "OUT/json", "--json")
    assert json.loads(out)
    assert strange(said, *TRAINING) == []


def test_twenty_seeds_of_the_recipes_that_ship_are_on_record():
    document = json.loads((ROOT / demo_seeds.RESULT).read_text())
    assert document["settings"] == demo_seeds.settings()
    assert [row["seed"] for row in document["rows"]] == list(demo_seeds.SEEDS)
    assert document["held"] == sum(map(demo_seeds.held, document["rows"]))
    assert min(row["codebook"]["kept"]["slant"]["low"] for row in document["rows"]) > 0


@pytest.mark.parametrize(
    ("codebook", "prgan", "holds"),
    [
        ("bounded", "leaks", True),
        ("cannot tell", "leaks", True),
        ("leaks", "leaks", False),
        ("bounded", "bounded", False),
    ],
)
def test_a_seed_holds_where_the_codebook_does_not_leak_and_prgan_does(codebook, prgan, holds):
    assert demo_seeds.held({"codebook": {"word": codebook}, "prgan": {"word": prgan}}) is holds


def test_a_seed_is_recorded_as_its_audits_came_out_and_none_twice(demo, tmp_path, monkeypatch):
    out, _ = demo
    monkeypatch.setattr(demo_seeds, "SEEDS", range(2))
    monkeypatch.setattr(demo_seeds, "DEMO", f"import shutil, sys; shutil.copytree({str(out)!r}, sys.argv[1])")
    place = tmp_path / "seeds.json"
    monkeypatch.setattr("sys.argv", ["demo_seeds", "--out", str(place)])
    code = demo_seeds.main()
    document = json.loads(place.read_text())
    verdicts = [json.loads((out / at / "audit.json").read_text())["verdict"] for at in ("export", "prgan-export")]
    for row in document["rows"]:
        assert [row[name]["word"] for name in ("codebook", "prgan")] == [one["word"] for one in verdicts]
        assert row["codebook"]["upper"] == verdicts[0]["upper"]
    assert [row["seed"] for row in document["rows"]] == [0, 1]
    assert code == (0 if document["held"] == 2 else 3)
    document["rows"][0]["seconds"] = 1e6
    place.write_text(json.dumps(document))
    assert demo_seeds.main() == code
    assert json.loads(place.read_text())["rows"] == document["rows"]
