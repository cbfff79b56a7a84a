"""A codebook from recipe to frames, on the embedded digits: stages, tables, saving, and what is refused."""

import numpy as np
import pytest

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.audit.subject import Bottleneck, bottleneck
from edgeveil.trainer.datasets.slicing import fit_and_validation
from edgeveil.trainer.measures.certificate import count, information
from edgeveil.trainer.perturbers.codebook import Codebook, funnel
from edgeveil.trainer.perturbers.codebook.synthesis import receiver_pool
from edgeveil.trainer.recipe.schema import Recipe
from edgeveil.trainer.runs.fitted import FittedPerturber, drawn
from edgeveil.trainer.runs.run import Run
from tests.support import seeds
from tests.support.small_runs import fit_codebook

QUICK = {"epochs": 12, "classifier_epochs": 1}


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """``fitted(**changes of the section)``: run and perturber of a short training, without D_y and D_z.

    Trained once for the same changes; with ``fit=False`` the run alone.
    """
    made = {}

    def make(family=None, fit=True, **changes):
        key = repr((family, fit, changes))
        if key not in made:
            recipe = Recipe.find("digits-codebook")
            parts = {"data": {"family": family}, "perturber": {"steps": 60, **changes}, "budget": QUICK}
            update = {name: getattr(recipe, name).model_copy(update=part) for name, part in parts.items()}
            recipe = recipe.model_copy(update={**update, "seed": seeds.seed(0)})
            run = Run.create(tmp_path_factory.mktemp("codebook") / "run", recipe)
            made[key] = run, fit_codebook(run) if fit else None
        return made[key]

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


@pytest.mark.parametrize("copies", [1, 2])
def test_codes_learn_from_the_second_slice_or_from_both_where_there_are_copies(fitted, monkeypatch, copies):
    learned = []

    class Seen(Exception):
        pass

    def watched(head, rows, section, **options):
        learned.append(rows)
        raise Seen

    monkeypatch.setattr(funnel, "learn", watched)
    run, _ = fitted(fit=False, copies=copies, shift=1)
    with pytest.raises(Seen):
        fit_codebook(run)
    first, second = (fit_and_validation(run.dataset(), name)[0] for name in ("classifiers", "perturber"))
    expected = np.concatenate([second.y, first.y]) if copies > 1 else second.y
    assert np.array_equal(learned[0].y, np.tile(expected, copies))
    if copies > 1:  # a sample's copies are counted as one
        assert len(np.unique(learned[0].group)) == len(expected)


DELETED = (
    'tokens = 2; channel = "lp"; bound = 0.2; merge_below = 5; epsilon = 1.0; decoder_steps = 9; latent = 4; '
    "code_batch = 7; weight_decay = 0.3; learning_rate = 0.1; shrinkage = 1.0; features = 7; width_of_head = 9; "
    'label_from = "none"; codes_from = "first"'
)
OLD = (
    'tokens = 1; channel = "none"; bound = 0.1; merge_below = 0; decoder_steps = 1500; latent = 8; '
    "code_batch = 0; weight_decay = 0.1; learning_rate = 0.002; shrinkage = 4.0; features = 128; "
    'width_of_head = 128; label_from = "first"; codes_from = "second"'
)


@pytest.mark.parametrize("line", DELETED.split("; "))
def test_a_deleted_key_is_refused_with_what_is_done_now(line, tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(Recipe.text("digits-codebook").replace("[perturber]\n", f"[perturber]\n{line}\n"))
    key = line.split()[0]
    with pytest.raises(BadInput, match=f"`perturber`: expected no `{key}`, .* deleted after commit baecb1ef: "):
        Recipe.find(path)
    with pytest.raises(BadInput, match=f"expected no `{key}`"):
        Recipe.of_run(path)


def test_a_run_of_before_they_were_deleted_is_opened(tmp_path):
    path = tmp_path / "recipe.toml"
    path.write_text(
        Recipe.text("digits-codebook").replace("[perturber]\n", "[perturber]\n" + OLD.replace("; ", "\n") + "\n")
    )
    assert Recipe.of_run(path) == Recipe.find("digits-codebook")
    path.write_text(
        Recipe.find("depth-codebook").toml().replace("[perturber]\n", '[perturber]\nchannel = "independent"\n')
    )
    assert Recipe.of_run(path) == Recipe.find("depth-codebook")
    with pytest.raises(BadInput, match="expected no `channel`"):
        Recipe.find(path)


def test_a_receiver_draws_the_same_donors_of_a_code_that_leaves_alone(fitted):
    run, perturber = fitted()
    alone = Codebook.as_code(perturber, run.dataset().x)
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
    alone = Codebook.as_code(perturber, dataset.x, pool)
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
    run, _ = fitted(fit=False, synthesis="centroid")
    with pytest.raises(BadInput, match=r'`perturber.synthesis` is not "donor"'):
        receiver_pool(run, 32)


@pytest.mark.nightly  # by day a price on z: test_noisy_codes.py
def test_a_price_on_the_digit_hides_it_too(fitted):
    told = {}
    for family in (None, "finest"):
        run, perturber = fitted(family, steps=300, price=8.0)
        part = run.dataset().part("test")
        counts = count(
            part.y,
            perturber.perturb(part.x)["code"],
            run.dataset().known["digit"].values[part.index],
            shape=(2, 16, 10),
        )
        told[family] = information(counts)
    assert told["finest"] < told[None] - 0.1


def test_donors_without_consent_are_refused_before_training(fitted):
    with pytest.raises(BadInput, match="public_data = true"):
        fitted(public_data=False)


def test_an_unknown_property_is_refused(fitted):
    with pytest.raises(BadInput, match='there is no "age"'):
        fitted(keep=["age"])
