"""A promise from recipe to estimate, by commands alone: trained, exported, audited, sealed, counted, run, collected."""

import contextlib
import io
import json
from types import SimpleNamespace

import numpy as np
import pytest

from edgeveil.edge_runtime.bundle.archive import pack, read_archive
from edgeveil.edge_runtime.bundle.reader import signature_member, signed_message
from edgeveil.edge_runtime.cli.main import main as edge
from edgeveil.edge_runtime.util import strict_json
from edgeveil.trainer.sealing.keys import Signer
from tests.support import small_runs
from tests.support.output import edgeveil as trainer
from tests.support.promised.counted_bundles import MACHINE
from tests.support.trial import short_audit

pytestmark = pytest.mark.slow
LOW, HIGH, N, FEW = -8.0, 8.0, 10_000, 30
KINDS = {
    "reading": ({"kind": "local", "of": "reading", "mechanism": "duchi-linf", "epsilon": 4.0}, 4.0, "mean"),
    "label": ({"kind": "label-only", "epsilon": 2.0}, 2.0, "histogram"),
}


def board(*words):
    """A command of ``edgeveil-edge``: its exit code, stdout and stderr."""
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as err:
        code = edge([str(word) for word in words])
    return code, out.getvalue(), err.getvalue()


@pytest.fixture(scope="module")
def made(request, tmp_path_factory):
    """``whole.veil``, which is audited and lets N reports of a board leave, and ``few.veil``, which lets FEW leave."""
    folder = tmp_path_factory.mktemp(request.param)
    perturber, epsilon, estimate = KINDS[request.param]
    trainer("key", "new", folder / "keys", "--development")
    data = {"source": f"npz:{small_runs.write_npz(folder)}", "target": "y", "sensitive": "z", "low": LOW, "high": HIGH}
    with pytest.MonkeyPatch.context() as patch:
        short_audit.shorten(patch, families=short_audit.FEW)
        for name, releases in (("whole", N), ("few", FEW)):
            recipe = small_runs.small_recipe(
                None,
                data=data,
                perturber=perturber,
                spending={"unit": "release", "most": releases * epsilon},
                budget={"classifier_epochs": 30, "epochs": 1, "batch": 16},
                floor=0.01,
            )
            (folder / f"{name}.toml").write_text(recipe.toml())
            run, export = folder / name, folder / f"{name}-export"
            lent = [] if name == "whole" else ["--classifiers", folder / "whole"]
            trainer("train", folder / f"{name}.toml", "--out", run, *lent)
            trainer("export", run, "--for", "jetson-nano", "--out", export)
            if name == "whole":
                variant = json.loads((export / "manifest.json").read_text())["preference"][:1] or ["numpy"]
                trainer("audit", export, "--artefact", variant[0])
            more = [] if name == "whole" else ["--no-audit"]
            trainer("seal", export, "--key", folder / "keys/signing.key", "--out", folder / f"{name}.veil", *more)
    return SimpleNamespace(folder=folder, trust=folder / "keys", epsilon=epsilon, estimate=estimate)


@pytest.fixture
def device(tmp_path, monkeypatch):
    """A board: the function runs a bundle from samples to reports and returns exit code, reports and epsilon spent."""
    (tmp_path / "machine-id").write_text(MACHINE + "\n")
    monkeypatch.setattr("edgeveil.edge_runtime.machine._MACHINE_IDS", (str(tmp_path / "machine-id"),))
    assert board("ledger", "new", tmp_path / "ledger")[0] == 0

    def run(made, bundle, x):
        np.savez(tmp_path / "x.npz", x=x)
        words = ["--trust", made.trust, "--ledger", tmp_path / "ledger", "--source", f"npz:{tmp_path}/x.npz"]
        code, _, err = board("run", bundle, *words, "--sink", f"npz:{tmp_path}/out.npz")
        shown = json.loads(board("ledger", "show", tmp_path / "ledger", "--json")[1])
        return code, err, tmp_path / "out.npz", shown["lifetime_epsilon"]

    return run


def samples(n):
    """Readings x float32 (n, FEATURES), three tenths of them of class 1, each where no classifier is in doubt."""
    x = np.random.default_rng(1).normal(scale=0.3, size=(n, small_runs.FEATURES)).astype(np.float32)
    x[:, 0] += 4 * (np.arange(n) % 10 < 3)
    return x


# By day a label is in test_held_answers.py, a reading in perturbers/test_local.py, and a claim that is less in
# manifest/test_spending.py.
@pytest.mark.nightly
@pytest.mark.parametrize("made", ["reading", "label"], indirect=True)
def test_what_was_collected_is_true_and_what_was_spent_is_counted(made, device, capsys):
    x = samples(N)
    if made.estimate == "mean":
        x += np.linspace(-6, 6, small_runs.FEATURES, dtype=np.float32)  # of every size, so that a wrong scale is seen
    code, err, out, spent = device(made, made.folder / "whole.veil", x)
    assert code == 0, err
    assert spent == pytest.approx(N * made.epsilon)
    words = ["--trust", made.trust, "--from", f"npz:{out}", "--estimate", made.estimate, "--json"]
    capsys.readouterr()
    trainer("local", "collect", made.folder / "whole.veil", *words)
    found = json.loads(capsys.readouterr().out)
    assert (found["units"], found["epsilon"]) == (N, made.epsilon)
    truth = x.mean(axis=0) if made.estimate == "mean" else np.array([0.7, 0.3])
    estimated = np.array(found["mean" if made.estimate == "mean" else "shares"])
    ends = np.array(found["interval_95"])
    half = (ends[:, 1] - ends[:, 0]) / 2
    assert (half < (0.6 if made.estimate == "mean" else 0.02)).all()
    assert (np.abs(estimated - truth) < 3 * half).all()  # 5.9 standard errors
    with np.load(out) as reports:
        assert len(reports["index"]) == N


@pytest.mark.nightly
@pytest.mark.parametrize("made", ["reading", "label"], indirect=True)
def test_what_is_over_the_promise_does_not_leave(made, device):
    code, err, out, spent = device(made, made.folder / "few.veil", samples(FEW + 50))
    assert code == 3
    assert "50 frames did not leave" in err
    assert spent == pytest.approx(FEW * made.epsilon)
    with np.load(out) as reports:
        assert len(reports["index"]) == FEW
    code, _, _, spent = device(made, made.folder / "few.veil", samples(5))
    assert code == 3
    assert spent == pytest.approx(FEW * made.epsilon)


@pytest.mark.nightly
@pytest.mark.parametrize("made", ["reading", "label"], indirect=True)
@pytest.mark.parametrize(("bundle", "says"), [("few", "spending.micro_epsilon: "), ("whole", "privacy.pipeline")])
def test_a_bundle_that_admits_a_millionth_less_is_refused_whoever_signed_it(made, device, bundle, says):
    """By the integers themselves; where there is an audit, it is of another pipeline then too."""
    signer = Signer.open(made.folder / "keys/signing.key")
    (_, data), _, *members = read_archive((made.folder / f"{bundle}.veil").read_bytes())
    manifest = strict_json.loads(data)
    manifest["spending"]["micro_epsilon"] -= 1
    data = strict_json.dumps(manifest)
    signature = signature_member(signer.key.key, signer.sign(signed_message(data)))
    less = made.folder / "less.veil"
    less.write_bytes(pack([("manifest.json", data), ("signature.json", signature), *members]))
    code, err, out, spent = device(made, less, samples(5))
    assert code == 2
    assert says in err
    assert spent == 0
    assert not out.exists()
