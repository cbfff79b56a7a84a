"""Tokens that are priced together tell nothing together; a codebook of two runs through the int8 artefact."""

import copy
import json

import jsonschema
import keras
import numpy as np
import pytest
import tomllib

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.manifest.manifest import parse
from edgeveil.edge_runtime.pipeline.pipeline import load_pipeline
from edgeveil.trainer.attacks.families.code_counts import CodeCounts
from edgeveil.trainer.attacks.families.fixed import Fixed
from edgeveil.trainer.attacks.families.logistic import Logistic
from edgeveil.trainer.audit.audit import audit
from edgeveil.trainer.audit.dataflow import Bottleneck, bottleneck
from edgeveil.trainer.export.export import export
from edgeveil.trainer.export.folder import ExportFolder
from edgeveil.trainer.graphs.prediction import predict
from edgeveil.trainer.measures.certificate import count, information
from edgeveil.trainer.perturbers.codebook import funnel
from edgeveil.trainer.perturbers.codebook.group_means import group_means
from edgeveil.trainer.perturbers.codebook.receiver_pool import receiver_pool
from edgeveil.trainer.perturbers.codebook.tokens import token_heads
from edgeveil.trainer.perturbers.codebook.training import code_head
from edgeveil.trainer.recipe.perturber import Codebook
from edgeveil.trainer.recipe.schema import Recipe
from edgeveil.trainer.runs.run import Run
from edgeveil.trainer.training.classifiers import train_classifiers
from tests.support import seeds
from tests.support.checkout import ROOT
from tests.support.small_runs import fit_codebook
from tests.support.trial import short_audit

SCHEMA = json.loads((ROOT / "docs/reference/schemas" / "audit.schema.json").read_text())


def signs(n: int = 4000, seed: int = 0) -> funnel.Rows:
    """T is three signs, and z says whether the first two differ: each by itself has nothing to do with z."""
    rng = np.random.default_rng(seed)
    first, second, free = rng.choice([-1.0, 1.0], (3, n))
    t = np.stack([1.2 * first, second, 0.8 * free], axis=1) + 0.1 * rng.normal(size=(n, 3))
    t = t.astype(np.float32)
    return funnel.Rows(t, t, np.zeros(n, np.int64), (first != second).astype(np.int64))


PRICED = Codebook(
    kind="codebook", keep=["pixels"], codes=2, tokens=2, price=4.0, features=3, width_of_head=32, steps=150
)
LEARN = {"rng": np.random.default_rng(0), "report": lambda *_: None}


def told(code: np.ndarray, rows: funnel.Rows) -> tuple[float, float]:
    """I(c1, c2; z) in bits, and how well the codes tell the third sign: 1 is always."""
    free = np.sign(rows.kept[:, 2])
    means = np.bincount(code, free, 4) / np.maximum(np.bincount(code, minlength=4), 1)
    return information(count(rows.y, code, rows.z, shape=(1, 4, 2))), float(np.abs(means[code]).mean())


def test_what_tokens_tell_together_is_priced():
    keras.utils.set_random_seed(seeds.seed(0))
    rows, new, steps = signs(), signs(seed=1), []
    report = {**LEARN, "report": lambda step, _: steps.append(step)}
    heads = token_heads(rows, PRICED, classes=(1, 2), **report)
    assert steps == list(range(15, 301, 15))
    label, code = funnel.global_codes(np.zeros((len(new.y), 1)), *(predict(head, new.features) for head in heads))
    assert not label.any()
    bits, kept = told(code, new)
    assert bits < 0.02
    assert kept > 0.9  # a token for the sign that has nothing to do with z
    # The same price on each token by itself lets both signs out.
    first = funnel.code_within(predict(heads[0], rows.features), rows.y, 1)
    left = funnel.Rows(rows.features, rows.kept - group_means(rows.kept, first, 2)[first], rows.y, rows.z)
    second = code_head(left, PRICED, classes=(1, 2), **LEARN)
    alone = [funnel.code_within(predict(head, new.features), new.y, 1) for head in (heads[0], second)]
    assert max(told(one, new)[0] for one in alone) < 0.02
    assert told(2 * alone[0] + alone[1], new)[0] > 0.9


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    """Run, perturber and export of a codebook of two tokens on digits, trained for a moment."""
    folder = tmp_path_factory.mktemp("tokens")
    recipe = Recipe.find("digits-codebook")
    section = recipe.perturber.model_copy(update={"codes": 3, "tokens": 2, "steps": 60})
    budget = recipe.budget.model_copy(update={"epochs": 12, "classifier_epochs": 1})
    limits = recipe.limits.model_copy(update={"target_accuracy": 0.5})  # of so short a training no D_y can be asked for
    recipe = recipe.model_copy(update={"perturber": section, "budget": budget, "limits": limits, "seed": seeds.seed(0)})
    run = Run.create(folder / "run", recipe)
    perturber = fit_codebook(run)
    run.save_perturber(perturber)
    train_classifiers(run)
    export(run.folder, ["workstation"], folder / "out")
    return run, perturber, ExportFolder.open(folder / "out")


def test_a_code_of_two_tokens_goes_through_int8_on_the_runtime(two):
    run, perturber, folder = two
    test = run.dataset().part("test")
    pipeline = load_pipeline(parse(folder.manifest), folder.members, "tflite-int8")
    out, on_keras = pipeline.run(test.x), perturber.perturb(test.x)
    pipeline.close()
    assert (out["code"] // 9 == out["label"]).all()
    assert len(np.unique(out["code"])) > 9
    assert (out["label"] == test.y).mean() > 0.8
    assert (out["code"] == on_keras["code"]).mean() > 0.7
    donors = {row.tobytes() for row in run.dataset().for_training().x}
    assert all(row.tobytes() in donors for row in out["frame"])


def test_the_joint_code_is_what_an_audit_counts(two):
    _, perturber, folder = two
    assert bottleneck(folder.manifest, perturber.tables) == Bottleneck("code", "code", None, 18, False, True)
    table = np.kron(np.eye(2), np.ones((9, 9))).astype(np.uint32)
    drawn = {"stage": "draw", "distribution": "channel", "input": "code", "table": "channel", "output": "c2"}
    stages = [stage if stage.get("input") != "code" else {**stage, "input": "c2"} for stage in perturber.stages]
    stages.insert(next(n for n, stage in enumerate(stages) if stage.get("input") == "c2"), drawn)
    outputs = [out if out["name"] != "code" else {**out, "tensor": "c2"} for out in perturber.outputs]
    behind = bottleneck({"stages": stages, "outputs": outputs}, {**perturber.tables, "channel": table})
    assert behind == Bottleneck("code", "c2", "channel", 18, False, True)


def test_a_receiver_draws_samples_of_the_joint_code(two):
    run, perturber, _ = two
    pool = receiver_pool(run, 4)
    assert pool.shape == (18, 4, 8, 8, 1)
    known = run.dataset().for_training().x
    codes = {}
    for x, code in zip(known, perturber.perturb(known)["code"], strict=True):
        codes.setdefault(x.tobytes(), set()).add(int(code))
    sent = np.unique(perturber.perturb(run.dataset().part("test").x)["code"])
    own = [code in codes[x.tobytes()] for code in sent for x in pool[code]]
    assert np.mean(own) > 0.8  # a code without samples borrows those of its class


def test_an_audit_counts_the_joint_code_of_what_a_receiver_draws(two, tmp_path, monkeypatch):
    run, _, _ = two
    run.record(state="finished", limit_met=True)
    short_audit.shorten(monkeypatch, epochs=1, trees=5)
    for module in ("audit.audit", "attacks.run_all"):
        monkeypatch.setattr(f"edgeveil.trainer.{module}.adversaries", lambda: (Fixed(), Logistic(), CodeCounts()))
    sent = export(run.folder, ["workstation"], tmp_path / "code", emit="code", pool=receiver_pool(run, 4))
    assert [output["kind"] for output in sent.manifest["outputs"]] == ["code", "label"]
    document = audit(tmp_path / "code", artefact="tflite-int8")
    jsonschema.Draft202012Validator(SCHEMA).validate(json.loads(json.dumps(document, allow_nan=False)))
    assert "code counts" in {row["name"] for row in document["adversaries"]}
    bound, slices = document["certificate"]["per_code"], run.dataset().slices
    assert bound["units"] == len(slices.attack) + len(slices.test)
    assert sum(bound["pairs"].values()) == 2 * 18
    assert bound["of_class"]["codes"] == 18


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"codes": 32, "tokens": 3}, "at most 1024 codes of a class, `codes` to the power of `tokens`; got 32768"),
        ({"codes": 4, "tokens": 2, "method": "residual"}, 'method = "funnel" with several `tokens`'),
        ({"codes": 4, "tokens": 2, "hold": "track:7"}, "one of `tokens` with this `hold`"),
        ({"tokens": 5}, "perturber.tokens"),
    ],
)
def test_what_tokens_may_not_ask_for(changes, says):
    table = copy.deepcopy(tomllib.loads(Recipe.find("digits-codebook").toml()))
    table["perturber"].pop("channel")
    table["perturber"] |= changes
    with pytest.raises(BadInput) as refused:
        Recipe.check(table)
    assert says in str(refused.value)
    assert "got a table" not in str(refused.value)
