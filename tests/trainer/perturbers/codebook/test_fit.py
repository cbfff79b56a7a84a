"""A codebook from recipe to frames, on the embedded digits: stages, tables, saving, and what is refused."""

import numpy as np
import pytest
from pydantic import ValidationError

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.audit.dataflow import Bottleneck, bottleneck
from edgeveil.trainer.datasets.slicing import fit_and_validation
from edgeveil.trainer.export.convert.code_output import as_code
from edgeveil.trainer.measures.certificate import certify, count, information
from edgeveil.trainer.perturbers.codebook import funnel
from edgeveil.trainer.perturbers.codebook.receiver_pool import receiver_pool
from edgeveil.trainer.recipe.perturber import Codebook
from edgeveil.trainer.recipe.schema import Recipe
from edgeveil.trainer.runs.fitted import FittedPerturber
from edgeveil.trainer.runs.received import drawn
from edgeveil.trainer.runs.run import Run
from edgeveil.trainer.training import classifiers
from edgeveil.trainer.training.classifiers import train_one
from tests.support import seeds
from tests.support.small_runs import fit_codebook

QUICK = {"epochs": 12, "classifier_epochs": 1}


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """``fitted(**changes of the section)``: run and perturber of a short training, without D_y and D_z."""

    def make(data=None, **changes):
        recipe = Recipe.find("digits-codebook")
        recipe = recipe.model_copy(update={"data": recipe.data.model_copy(update=data or {})})
        section = recipe.perturber.model_copy(update={"steps": 60, **changes})
        recipe = recipe.model_copy(
            update={"perturber": section, "budget": recipe.budget.model_copy(update=QUICK), "seed": seeds.seed(0)}
        )
        run = Run.create(tmp_path_factory.mktemp("codebook") / "run", recipe)
        return run, fit_codebook(run)

    return make


def test_a_codebook_of_donors(fitted, tmp_path):
    run, perturber = fitted()
    test, known = run.dataset().part("test"), run.dataset().for_training()
    out = perturber.perturb(test.x)
    assert (out["label"] == test.y).mean() > 0.8
    assert (out["code"] // 8 == out["label"]).all()
    assert perturber.substituted
    donors = {row.tobytes() for row in known.x}
    assert all(row.tobytes() in donors for row in out["frame"])  # real readings, exactly
    assert not {row.tobytes() for row in out["frame"]} & {row.tobytes() for row in test.x} - donors
    perturber.save(tmp_path)
    again = FittedPerturber.load(tmp_path).perturb(test.x)
    assert np.array_equal(again["code"], out["code"])
    assert {line["stage"] for line in run.metrics()} == {"trunk", "codes"}


def test_y_may_be_read_by_a_network_of_its_own_that_learned_from_both_slices(fitted, monkeypatch):
    learned = []

    def watched(model, fit, choose, **options):
        learned.append((model, len(fit[1]), len(choose[1])))
        return train_one(model, fit, choose, **options)

    monkeypatch.setattr(classifiers, "train_one", watched)
    run, perturber = fitted(label_from="both")
    cuts = [fit_and_validation(run.dataset(), name) for name in ("classifiers", "perturber")]
    ((labels, *rows),) = learned
    assert rows == [sum(map(len, parts)) for parts in zip(*cuts, strict=True)]
    test = run.dataset().part("test")
    out = perturber.perturb(test.x)
    assert (out["label"] == labels.predict(run.dataset().unit(test.x), verbose=0).argmax(axis=1)).all()
    assert (out["code"] // 8 == out["label"]).all()


@pytest.mark.parametrize("codes_from", ["second", "both"])
def test_codes_learn_from_the_second_slice_or_from_both(fitted, monkeypatch, codes_from):
    learned = []
    learn = funnel.learn

    def watched(head, rows, section, **options):
        learned.append(rows)
        learn(head, rows, section, **options)

    monkeypatch.setattr(funnel, "learn", watched)
    run, _ = fitted(codes_from=codes_from, copies=2, shift=1)
    first, second = (fit_and_validation(run.dataset(), name)[0] for name in ("classifiers", "perturber"))
    expected = np.concatenate([second.y, first.y]) if codes_from == "both" else second.y
    assert np.array_equal(learned[0].y, np.tile(expected, 2))
    assert len(np.unique(learned[0].group)) == len(expected)  # a sample's copies are counted as one


@pytest.mark.parametrize("changes", [{"method": "residual"}, {"hold": "track:7"}])
def test_codes_that_no_head_learns_are_not_learned_from_both(changes):
    with pytest.raises(ValidationError, match=r'codes_from = "second" here: by "residual" or held'):
        Codebook(kind="codebook", keep=["pixels"], codes_from="both", **changes)


def test_a_receiver_draws_the_same_donors_of_a_code_that_leaves_alone(fitted):
    run, perturber = fitted()
    alone = as_code(perturber, run.dataset().x)
    test = run.dataset().part("test")
    there, here = perturber.perturb(test.x), alone.perturb(test.x)
    assert set(here) == {"code", "label"}
    assert all(np.array_equal(here[name], there[name]) for name in here)
    assert set(alone.tables) == {"decoder"}
    assert bottleneck(alone.description(), alone.tables) == Bottleneck("code", "code", None, 16, False, True)
    assert alone.tables["decoder"].shape == (16, 4, 8, 8, 1)
    x = drawn(here["code"], alone.tables["decoder"], np.random.default_rng(0))
    assert x.dtype == test.x.dtype
    for code in np.unique(here["code"]):
        of_code = {row.tobytes() for row in perturber.tables["pictures"][4 * code : 4 * code + 4]}
        assert {row.tobytes() for row in x[here["code"] == code]} <= of_code


def test_a_receiver_may_draw_any_sample_of_a_code(fitted):
    run, perturber = fitted()
    dataset = run.dataset()
    run.save_perturber(perturber)
    pool = receiver_pool(run, 32)
    assert pool.shape == (16, 32, 8, 8, 1)
    assert pool.dtype == dataset.x.dtype
    alone = as_code(perturber, dataset.x, pool)
    assert alone.tables["decoder"] is pool
    known = dataset.for_training()
    sent = perturber.perturb(known.x)
    codes_of: dict[bytes, set[int]] = {}
    for x, code in zip(known.x, sent["code"], strict=True):
        codes_of.setdefault(x.tobytes(), set()).add(int(code))
    rows = np.concatenate([fit_and_validation(dataset, name)[0].index for name in ("classifiers", "perturber")])
    for code in np.unique(perturber.perturb(dataset.x[rows])["code"]):
        assert all(code in codes_of[x.tobytes()] for x in pool[code])  # real samples of this very code
    typical = {x.tobytes() for x in perturber.tables["pictures"]}
    assert len({x.tobytes() for samples in pool for x in samples}) > 2 * len(typical)
    with pytest.raises(BadInput, match=r"--pool expected 1 to 4096 samples of each code; got 5000"):
        receiver_pool(run, 5000)


def test_a_pool_is_for_donors_alone(fitted):
    run, _ = fitted(synthesis="centroid")
    with pytest.raises(BadInput, match=r'`perturber.synthesis` is not "donor"'):
        receiver_pool(run, 32)


def test_a_price_on_the_digit_hides_it_too(fitted):
    told = {}
    for family in (None, "finest"):
        run, perturber = fitted(data={"family": family}, steps=300, price=8.0)
        part = run.dataset().part("test")
        counts = count(
            part.y,
            perturber.perturb(part.x)["code"],
            run.dataset().known["digit"].values[part.index],
            shape=(2, 16, 10),
        )
        told[family] = information(counts)
    assert told["finest"] < told[None] - 0.1


def test_a_codebook_of_pictures_that_a_network_drew(fitted):
    run, perturber = fitted(synthesis="decoder", decoder_steps=300)
    assert not perturber.substituted
    assert perturber.tables["pictures"].shape == (2 * 8 * 4, 8, 8, 1)
    test, known = run.dataset().part("test"), {row.tobytes() for row in run.dataset().x}
    out = perturber.perturb(test.x)
    assert not {row.tobytes() for row in out["frame"]} & known
    again = perturber.perturb(test.x)
    assert (again["code"] == out["code"]).all()
    assert (again["frame"] != out["frame"]).any()  # one of four pictures, drawn anew


def test_a_codebook_of_centroids_through_an_lp_channel(fitted):
    run, perturber = fitted(channel="lp", bound=0.05, synthesis="centroid", codes=4)
    assert not perturber.substituted
    assert [stage["stage"] for stage in perturber.stages][-2:] == ["draw", "synthesis"]
    table = perturber.tables["channel"]
    assert table.dtype == np.uint32
    assert (table.sum(axis=1) == 2**16).all()
    assert not table[:4, 4:].any()
    test = run.dataset().part("test")
    out = perturber.perturb(test.x)
    assert len(np.unique(out["frame"].reshape(len(test), -1), axis=0)) <= 8
    code = FittedPerturber(**{**vars(perturber), "outputs": (*perturber.outputs[:2], _code("code"))}).perturb(test.x)[
        "code"
    ]
    found = certify(
        test.y,
        code,
        test.z,
        channel=table,
        classes=(2, 2),
        chance=0.6,
        tried=1,
        shuffles=20,
        rng=np.random.default_rng(0),
    )
    assert found.plug_in < 0.72


def test_an_independent_channel_sends_the_class_and_nothing_more(fitted):
    run, perturber = fitted(channel="independent", synthesis="centroid", codes=4)
    table = perturber.tables["channel"]
    assert (table[:4] == table[0]).all()
    x = np.repeat(run.dataset().part("test").x[:1], 400, axis=0)
    out = perturber.perturb(x)
    assert len(np.unique(out["code"])) > 1
    assert len(np.unique(out["label"])) == 1


def test_a_code_of_few_samples_is_never_sent(fitted):
    run, all_codes = fitted()
    test, second = run.dataset().part("test"), fit_and_validation(run.dataset(), "perturber")[0]
    counts = np.bincount(all_codes.perturb(second.x)["code"], minlength=16)
    fewest = int(np.sort(counts[counts > 0])[2]) + 1  # three codes or more have fewer
    _, few = fitted(merge_below=fewest)
    out, before = few.perturb(test.x), all_codes.perturb(test.x)
    assert (out["label"] == before["label"]).all()
    assert (counts[out["code"]] >= fewest).all()
    kept = counts[before["code"]] >= fewest
    assert not kept.all()
    assert (out["code"][kept] == before["code"][kept]).all()
    assert (out["code"] // 8 == before["code"] // 8).all()


def test_donors_without_consent_are_refused_before_training(fitted):
    with pytest.raises(BadInput, match="public_data = true"):
        fitted(public_data=False)


def test_an_unknown_property_is_refused(fitted):
    with pytest.raises(BadInput, match='there is no "age"'):
        fitted(keep=["age"])


def _code(tensor):
    return {"name": "code", "kind": "code", "tensor": tensor, "shape": [], "dtype": "int64"}
