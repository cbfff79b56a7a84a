"""What a shipped model gives away of its training people: found where it remembers them, and not where it does not."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest

from edgeveil.trainer import datasets
from edgeveil.trainer.audit import trained
from edgeveil.trainer.audit.findings import Finding
from edgeveil.trainer.audit.probes import artefact_membership
from edgeveil.trainer.audit.probes.artefact_membership import Network, Training
from edgeveil.trainer.datasets.base import Slices, Units
from edgeveil.trainer.datasets.slicing import fit_and_validation
from edgeveil.trainer.export.export import export
from edgeveil.trainer.measures.intervals import Interval
from edgeveil.trainer.recipe.schema import Recipe
from edgeveil.trainer.runs.run import Head
from edgeveil.trainer.train import train
from tests.support import seeds
from tests.support.small_runs import small_recipe, write_npz

PROMISE = {"epsilon": 1.0, "delta": 0.0, "unit": "row", "neighbours": "replace"}
LIKE = Training("classifiers", 6e-3, 40, 2)
BITS, ROWS = 100, 1600


def table(folder, y):
    """300 people a slice, and as many bits of each; z is bit 0, in which two people are as far apart as in all others.

    ``y`` makes the class of bits (n,).
    """
    rng = np.random.default_rng(seeds.seed(0))
    x = rng.integers(0, 2, (ROWS, BITS)).astype(np.float32)
    x[:, 0] *= 10
    z = x[:, 0] > 0
    return datasets.load(small_recipe(write_npz(folder, rows=ROWS, x=x, y=y(z, rng), z=z), kind="label-only"))


@pytest.fixture(scope="module")
def coins(tmp_path_factory):
    """y is a coin's, so that all that a model has of it, it remembers."""
    return table(tmp_path_factory.mktemp("coins"), lambda z, rng: rng.integers(0, 2, len(z)))


def members(dataset):
    return fit_and_validation(dataset, "classifiers")[0].index


def nearest(dataset):
    """A model that answers as the nearest of its training rows was labelled."""
    x, y = dataset.x[members(dataset)], dataset.y[members(dataset)]

    def logits(rows):
        near = ((x**2).sum(axis=1) - 2 * rows @ x.T).argmin(axis=1)
        return 3.0 * np.eye(2)[y[near]]

    return logits


def linear(dataset, *, noise=0.0):
    """Logistic regression of the training rows, with noise of this deviation on its weights."""
    from sklearn.linear_model import LogisticRegression

    fitted = LogisticRegression(max_iter=500).fit(dataset.x[members(dataset)], dataset.y[members(dataset)])
    weights = fitted.coef_[0] + np.random.default_rng(seeds.seed(1)).normal(size=BITS) * noise
    return lambda rows: (rows @ weights + fitted.intercept_)[:, None] * [-0.5, 0.5]


def attack(dataset, logits, promise=PROMISE):
    import keras

    keras.utils.set_random_seed(seeds.seed(0))
    shape = dataset.input.shape
    network = keras.Sequential([keras.Input(shape), keras.layers.Flatten(), keras.layers.Dense(2)])
    model = trained.Model("the head", Network("head", "scores", "scores"), network, LIKE, promise)
    found, why_not = trained.attack(logits, model, dataset, 0)
    return {(one.question, one.about or one.name, one.figure): one for one in found}, why_not


BEYOND = ("value 0", trained.BEYOND, "difference")
PROVED = ("membership", "epsilon that members prove", "epsilon")


def test_a_model_that_remembers_gives_its_people_away_and_no_others(coins):
    found, why_not = attack(coins, nearest(coins))
    assert why_not == ""
    # Half of the other values of a bit lead to somebody of another y; the rest are a coin's.
    mine = found["value 0", trained.MEMBERS, "right"]
    assert mine.value == pytest.approx(0.75, abs=0.09)
    assert mine.interval[0] > 0.6 > mine.null
    assert {"marginal", "y", "attributes"} <= set(mine.more)
    assert found["value 0", trained.OTHERS, "right"].value == pytest.approx(0.5, abs=0.1)
    assert found[BEYOND].interval[0] > 0
    assert found[BEYOND].more["found"]
    assert found["membership", "from the artefact, by loss", "auc"].interval[0] > 0.65
    assert found["membership", "from the artefact, by loss", "recognised"].figure == "recognised"
    assert found[PROVED].value > 1.5
    assert not found[PROVED].more["holds"]
    assert "the claim does not hold" in found[PROVED].text


def test_a_model_of_much_noise_gives_nothing_away(coins):
    found, _ = attack(coins, linear(coins, noise=100.0))
    assert not found[BEYOND].more["found"]
    assert found[BEYOND].interval[0] < 0 < found[BEYOND].interval[1]
    assert found["membership", "from the artefact, by loss", "auc"].value == pytest.approx(0.5, abs=0.11)
    assert found[PROVED].more["holds"]


def test_what_is_read_of_all_people_alike_is_no_leak(tmp_path):
    dataset = table(tmp_path, lambda z, rng: z ^ (rng.random(len(z)) < 0.1))
    found, _ = attack(dataset, lambda rows: np.stack([5 - rows[:, 0], rows[:, 0] - 5], axis=1))
    for side in (trained.MEMBERS, trained.OTHERS):
        one = found["value 0", side, "right"]
        assert one.value == pytest.approx(0.9, abs=0.06)
        assert one.null == pytest.approx(one.value, abs=0.02)  # y alone is as good
    assert not found[BEYOND].more["found"]


def test_a_promise_is_judged_only_where_chance_put_its_unit_in_a_slice(coins):
    found, _ = attack(coins, nearest(coins), {**PROMISE, "unit": "subject"})
    assert "chance put each row in a slice" in found[(*PROVED[:2], "")].not_run
    slices = replace(coins.slices, test=coins.slices.rows()[800:], attack=np.empty(0, np.int64))
    found, _ = attack(replace(coins, slices=slices), nearest(coins))
    assert "no slice was left" in found[(*PROVED[:2], "")].not_run
    found, _ = attack(coins, nearest(coins), None)
    assert not [key for key in found if key[1] == PROVED[1]]


def test_columns_of_one_attribute_are_guessed_together_where_z_is_none(coins):
    x = np.zeros((len(coins.y), 5), np.float32)
    colour = np.random.default_rng(0).integers(0, 3, len(x))
    x[np.arange(len(x)), colour] = 1
    x[:, 3:] = np.random.default_rng(1).normal(size=(len(x), 2))
    columns = [
        {"name": "colour", "kind": "one-hot", "values": ["a", "b", "c"]},
        *({"name": name, "kind": "number", "flag": False} for name in ("height", "weight")),
    ]
    dataset = replace(coins, x=x, input=replace(coins.input, shape=(5,), table={"columns": columns}))
    (one,), why_not = trained.attributes(dataset)
    assert (one.name, one.at, why_not) == ("colour", slice(0, 3), "")
    np.testing.assert_array_equal(one.values[one.codes], x[:, :3])


def test_what_cannot_be_inverted_is_said(coins):
    none, why_not = trained.attributes(replace(coins, x=np.random.default_rng(0).normal(size=coins.x.shape)))
    assert none == []
    assert "no column of x has 2 to 10 values" in why_not
    pictures = replace(coins.input, kind="image", shape=(10, 10, 1))
    assert "these samples are images" in trained.attributes(replace(coins, input=pictures))[1]


def test_a_difference_of_gains_is_as_wide_as_both(monkeypatch):
    one, other = Interval(0.2, 0.17, 0.23), Interval(0.1, 0.06, 0.14)
    assert trained.less(one, other) == pytest.approx((0.1, 0.05, 0.15))
    assert trained.less(one, other, wider=2.0) == pytest.approx((0.1, 0.0, 0.2))
    alike = trained.gain(np.ones(50, bool), np.ones(50, bool), None)
    assert alike.low < -0.05 < 0.05 < alike.high


@pytest.mark.nightly  # by day measures/test_black_box.py
def test_people_of_several_rows_are_one_coin_each_and_two_steps_apart_where_one_is_added(coins):
    person = np.arange(ROWS) // 4
    place = np.random.default_rng(seeds.seed(0)).random(ROWS // 4)[person]
    units = Units("subject", person, place, np.random.default_rng([seeds.seed(0), 1]).random(ROWS // 4)[person])
    classifiers, perturber, held, test = units.dealt(4)
    slices = Slices(classifiers, perturber, test, held)
    people = replace(coins, units=units, cluster=person, cluster_kind="subject", slices=slices)
    proved = {}
    for neighbours in ("replace", "add or remove"):
        found, _ = attack(people, nearest(people), {**PROMISE, "unit": "subject", "neighbours": neighbours})
        assert found[PROVED].rows == len(np.unique(person[members(people)]))  # a pair for each person
        proved[neighbours] = found[PROVED].value
    assert proved["replace"] > 0.5
    assert proved["add or remove"] == pytest.approx(proved["replace"] / 2, abs=2e-3)


# The command


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """An export of label-only with a head, from data of 2,000 rows whose value 2 is a bit."""
    folder = tmp_path_factory.mktemp("head")
    rng = np.random.default_rng(seeds.seed(0))
    x = rng.normal(size=(2000, 6)).astype(np.float32)
    x[:, 2] = rng.integers(0, 2, 2000)
    y = (x[:, 0] > 0).astype(int)
    data = write_npz(folder, rows=2000, x=x, y=y)
    recipe = small_recipe(
        data,
        kind="label-only",
        data={"source": f"npz:{data}", "target": "y", "sensitive": "z", "low": -5.0, "high": 10.0},
    )
    head = {"kind": "logistic", "epsilon": 5.0}
    run = train(Recipe.check({**recipe.model_dump(exclude_none=True), "head": head}), folder / "run")
    export(run.folder, ["workstation"], folder / "export", emit="both")
    return folder


@pytest.fixture(autouse=True)
def _few_shadows(monkeypatch):
    monkeypatch.setattr(artefact_membership, "SHADOWS", {"quick": 4})


def test_the_head_of_an_export_is_attacked_and_keeps_its_promise(exported, edgeveil):
    code, out, err = edgeveil("audit", "training", exported / "export")
    assert code == 0
    assert out.startswith("Attacks on the training of the head (logistic regression by objective perturbation), tflite")
    for words in ("\nvalue 2\n", "training people", "without the model", "5 is promised", "Laplace noise of scale 4"):
        assert words in out
    assert "attacks on the training: 2/2" in err
    code, again, _ = edgeveil("audit", "training", exported / "export", "--json")
    assert code == 0
    document = json.loads(again)
    found = [Finding.from_json(one) for one in document["findings"]]
    assert trained.as_text(document) == out.rstrip("\n")  # repeatable
    assert document["promise"] == {"delta": 0.0, "epsilon": 5.0, "unit": "row"}
    assert {one.question for one in found} == {"membership", "value 2"}
    (beyond,) = (one for one in found if one.about == trained.BEYOND)
    assert not beyond.more["found"]


def test_a_promise_that_is_proved_wrong_ends_with_3(exported, edgeveil, monkeypatch):
    wrong = replace(Head.of_run(exported / "run"), promise={**PROMISE, "epsilon": 0.1, "covers": "the head"})
    monkeypatch.setattr(trained.Head, "of_run", lambda folder: wrong)
    # Members are the first half of the rows that are asked.
    monkeypatch.setattr(artefact_membership, "confidence", lambda logits, y: np.arange(len(y), 0, -1.0))
    code, _, err = edgeveil("audit", "training", exported / "export")
    assert code == 3
    assert "0.1 is promised: the claim does not hold" in err


@pytest.mark.nightly  # by day of a head, above
def test_without_a_head_the_network_that_decides_y_is_attacked(exported, edgeveil):
    export(exported / "run", ["workstation"], exported / "plain")
    code, out, _ = edgeveil("audit", "training", exported / "plain", "--json")
    document = json.loads(out)
    assert (code, document["model"], document["promise"]) == (0, "the network classifier", None)
    assert "value 2" in {one["question"] for one in document["findings"]}


def test_what_is_no_export_with_its_run_is_refused(exported, edgeveil, tmp_path):
    (tmp_path / "x.veil").write_bytes(b"")
    code, _, err = edgeveil("audit", "training", tmp_path / "x.veil")
    assert (code, "An export folder was expected" in err) == (2, True)
    shutil.copytree(exported / "export", tmp_path / "export")
    code, _, err = edgeveil("audit", "training", tmp_path / "export")
    assert (code, "not where export.json names it" in err) == (2, True)
    shutil.copytree(exported / "run", tmp_path / "run")
    with (tmp_path / "run/recipe.toml").open("a") as file:
        file.write("\n")
    code, _, err = edgeveil("audit", "training", tmp_path / "export")
    assert (code, "has another recipe" in err) == (2, True)
