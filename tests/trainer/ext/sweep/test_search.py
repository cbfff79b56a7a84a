"""A search proposes settings by rows that are not of the test, and measures the best of them alone on the test."""

import json
import sys
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import tomllib

from edgeveil.edge_runtime.errors import BadInput, DeviceFailed, LimitNotMet
from edgeveil.trainer.datasets.slicing import fit_and_validation
from edgeveil.trainer.ext.sweep import axes as sweep
from edgeveil.trainer.ext.sweep import point as measuring
from edgeveil.trainer.ext.sweep.axes import Axis, parse
from edgeveil.trainer.ext.sweep.search import check, search
from edgeveil.trainer.recipe.schema import Recipe
from edgeveil.trainer.recipe.training_sections import Limits
from tests.support.small_runs import small_run

RECIPE = Recipe.find("digits-codebook")
RANGES = [parse("perturber.price=0.25..16"), parse("perturber.codes=2..32")]


def document(price=1.0, codes=4, **_):
    """More codes keep more and leak more; a price makes both less."""
    ink = 0.9 * codes / (codes + 2) / (1 + 0.1 * price)
    return {"leak": {"accuracy": 0.5 + 0.3 * codes / 32 / (price + 0.5)}, "kept": {"ink": {"correlation": ink}}}


def measured(points, of=document):
    return [of(**{key.rpartition(".")[2]: value for key, value in one.settings.items()}) for one in points]


@pytest.mark.parametrize(
    ("text", "span"),
    [
        ("perturber.price=0.5..16", (0.5, 16.0)),
        ("perturber.price=1..2.5", (1.0, 2.5)),
        ("perturber.codes=2..32", (2, 32)),
    ],
)
def test_a_range_is_a_key_and_its_ends(text, span):
    axis = parse(text)
    assert axis == Axis(text.partition("=")[0], span=span)
    assert [type(end) for end in axis.span] == [type(end) for end in span]


@pytest.mark.parametrize(
    "text", ["perturber.price=4..1", "perturber.price=1..1", "perturber.price=low..high", "seed=1.."]
)
def test_what_is_no_range_is_refused(text):
    with pytest.raises(BadInput, match=r"expected LOW\.\.HIGH, two numbers"):
        parse(text)


@pytest.mark.parametrize(
    ("axes", "trials", "why"),
    [
        (["perturber.price=1..4"], None, "a range is searched. Give --trials"),
        (["perturber.price=1..4"], 1, "--trials: expected 2 or more; got 1"),
        (["perturber.prise=1..4"], 9, 'did you mean "perturber.price"'),
        (["perturber.price=-1..4"], 9, "perturber.price"),
        (["perturber.codes=1.5..4"], 9, "perturber.codes"),
        ([], 9, "none of the keys to search. Give it an --axis"),
    ],
)
def test_what_no_search_can_take_is_refused_before_anything_starts(axes, trials, why, tmp_path):
    with pytest.raises(BadInput, match=why):
        sweep.sweep([RECIPE], [parse(text) for text in axes], tmp_path / "out", trials=trials)
    assert not (tmp_path / "out").exists()


def test_optuna_that_is_not_there_is_said(monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(DeviceFailed, match=r"pip install 'edgeveil\[search\]', or leave out --trials"):
        check([RECIPE], RANGES, 4)


@pytest.mark.parametrize("at_once", [1, 3])
def test_the_same_search_proposes_the_same_settings(at_once):
    front, lines = search([RECIPE], RANGES, 12, measured, at_once=at_once)
    assert search([RECIPE], RANGES, 12, measured, at_once=at_once)[1] == lines
    assert len({json.dumps(line["settings"]) for line in lines}) == 12
    assert all(type(line["settings"]["perturber.codes"]) is int for line in lines)
    assert all(point.recipe.perturber.price == point.settings["perturber.price"] for point in front)
    other = RECIPE.model_copy(update={"seed": 1})
    assert [line["settings"] for line in search([other], RANGES, 12, measured, at_once=at_once)[1]] != [
        line["settings"] for line in lines
    ]


def test_the_front_is_what_no_other_trial_is_better_than():
    front, lines = search([RECIPE], RANGES, 12, measured, at_once=1)
    kept = [line for line in lines if line["front"]]
    assert [dict(point.settings) for point in front] == [line["settings"] for line in kept]
    for line in lines:
        better = [one for one in lines if one["leak"] <= line["leak"] and one["kept"] >= line["kept"] and one != line]
        assert line["front"] is not any((one["leak"], one["kept"]) != (line["leak"], line["kept"]) for one in better)


def test_listed_values_are_each_tried_once_and_no_more():
    axes = [parse("perturber.method=funnel,residual"), parse("perturber.price=1,2")]
    _, lines = search([RECIPE], axes, 9, measured, at_once=1)
    assert sorted(tuple(line["settings"].values()) for line in lines) == [
        (method, price) for method in ("funnel", "residual") for price in (1, 2)
    ]
    assert len(search([RECIPE], [parse("perturber.price=1.0..1.0001")], 9, measured, at_once=2)[1]) == 1


def test_what_misses_the_limit_of_y_or_fails_is_no_front_and_is_left_for_others():
    """Where few codes miss the limit, the search goes to more."""

    def of(price, codes):
        if codes < 16:
            return {"pruned": 0.01 * (16 - codes)}
        return {"failed": "it diverged."} if price > 12 else document(price, codes)

    front, lines = search([RECIPE], RANGES, 24, lambda points: measured(points, of), at_once=1)
    assert front
    assert all(point.settings["perturber.codes"] >= 16 for point in front)
    for seed in (0, 1, 2):  # of random settings a quarter has so many codes
        recipe = RECIPE.model_copy(update={"seed": seed})
        _, others = search([recipe], RANGES, 24, lambda points: measured(points, of), at_once=1)
        assert np.mean([line["settings"]["perturber.codes"] >= 16 for line in others[8:]]) > 0.4
    assert all(set(line) == {"recipe", "settings", "pruned", "front"} for line in lines if "pruned" in line)


def test_a_search_finds_the_front_by_fewer_trainings_than_draws_do():
    """The area below the front over label-only at 16 trials, mean of ten seeds, above that of 16 random draws."""

    def area(pairs):
        best, total, left = 0.0, 0.0, sorted(pairs)
        for number, (leak, kept) in enumerate(left):
            best = max(best, kept)
            total += best * ((left[number + 1][0] if number + 1 < len(left) else 0.9) - leak)
        return total

    def of(price, codes):
        return document(price, codes) | {
            "kept": {"ink": {"correlation": 0.9 - abs(codes - 9) / 30 - abs(price - 4) / 20}}
        }

    rng, ours, draws = np.random.default_rng(0), [], []
    for seed in range(10):
        recipe = RECIPE.model_copy(update={"seed": seed})
        lines = search([recipe], RANGES, 16, lambda points: measured(points, of), at_once=1)[1]
        ours.append(area([(line["leak"], line["kept"]) for line in lines]))
        drawn = [of(np.exp(rng.uniform(np.log(0.25), np.log(16))), int(rng.integers(2, 33))) for _ in range(16)]
        draws.append(area([(one["leak"]["accuracy"], one["kept"]["ink"]["correlation"]) for one in drawn]))
    assert np.mean(ours) > np.mean(draws)


def test_only_the_front_is_measured_on_the_test_slice(tmp_path, monkeypatch):
    tasks = []

    def engine(asked, out, *, jobs, engine):
        for task in asked:
            tasks.append(task)
            change = {} if task.floor else tomllib.loads(task.recipe)["perturber"]
            rates = {"low": 0.5, "high": 0.7, "auc": 0.5, "name": "code counts"}
            facts = document(**{name: change[name] for name in ("price", "codes") if name in change})
            facts["leak"] |= rates
            yield task, facts | {"target": {"accuracy": 0.9, "low": 0.8, "high": 1.0}, "chance": {"majority": 0.5}}

    monkeypatch.setattr(sweep, "measured", engine)
    frontier = sweep.sweep([RECIPE], RANGES, tmp_path, budget="quick", trials=8)
    searched = [task for task in tasks if task.searched]
    assert len(searched) == len(frontier["trials"]) == 8
    front = [line["settings"] for line in frontier["trials"] if line["front"]]
    assert [row["settings"] for row in frontier["points"]] == [{}, *front]
    assert frontier["compared"] == len(front) == len(tasks) - len(searched) - 1
    tasks.clear()
    assert sweep.sweep([RECIPE], RANGES, tmp_path, budget="quick", trials=8) == frontier
    assert tasks == []
    assert len(sweep.sweep([RECIPE], RANGES, tmp_path, budget="quick", trials=10)["trials"]) == 10
    assert 2 <= len([task for task in tasks if task.searched]) <= 10


@pytest.mark.parametrize("attack", [0, 60])
def test_a_search_has_no_row_of_the_test_and_none_that_was_fitted(attack):
    few = small_run().dataset()
    test = few.slices.test
    dataset = replace(few, slices=replace(few.slices, attack=test[:attack], test=test[attack:]))
    of_search = measuring.without_test(dataset)
    fit, _ = fit_and_validation(dataset, "perturber")
    judged = {row.tobytes() for row in of_search.part("test").x}
    assert len(judged) == len(of_search.slices.test) == len(dataset.slices.perturber) - len(fit)
    assert not judged & {row.tobytes() for row in fit.x}
    seen = {row.tobytes() for row in of_search.x}
    assert not seen & {row.tobytes() for row in dataset.part("test").x}
    assert len(of_search.slices.attack) == attack


def test_a_point_of_a_search_is_measured_without_the_test(tmp_path, monkeypatch):
    run, judged = small_run(), []
    monkeypatch.setattr(measuring, "shared_classifiers", lambda *_, **__: run)
    monkeypatch.setattr(measuring, "_trained", lambda *_, **__: run)
    monkeypatch.setattr(measuring, "measure", lambda dataset, *_, **__: judged.append(dataset) or {})
    for searched in (True, False):
        measuring.measure_point(run.recipe, False, tmp_path, "full", "auto", searched=searched)
    test = {row.tobytes() for row in run.dataset().part("test").x}
    assert [bool(test & {row.tobytes() for row in one.x}) for one in judged] == [False, True]


def test_a_run_that_misses_its_limit_is_not_attacked(tmp_path, monkeypatch):
    run = small_run()
    facts = {**run.facts, "limit_met": False, "validation": {"target_accuracy": 0.9, "reader_accuracy": 0.92}}
    missed = SimpleNamespace(facts=facts, sample=run.sample)
    monkeypatch.setattr(measuring, "shared_classifiers", lambda *_, **__: run)
    monkeypatch.setattr(measuring, "_trained", lambda *_, **__: missed)
    monkeypatch.setattr(measuring, "without_test", lambda dataset: dataset)
    monkeypatch.setattr(measuring, "measure", lambda *_, **__: pytest.fail("it attacked"))
    recipe = RECIPE.model_copy(update={"limits": Limits(target_accuracy=0.95)})
    facts = {"floor": False, "out": tmp_path, "budget": "quick", "attacks": "auto", "searched": True}
    assert measuring.measure_point(recipe, **facts) == {"pruned": pytest.approx(0.03)}


def test_a_search_without_a_front_is_an_error_that_says_why(tmp_path):
    def of(**_):
        return {"failed": "it diverged."}

    with pytest.raises(LimitNotMet, match=r"none of 4 trials.*it diverged"):
        search([RECIPE], RANGES, 4, lambda points: measured(points, of), at_once=1)
    with pytest.raises(LimitNotMet, match=r"none of 4 trials.*y misses.*0\.020"):
        search([RECIPE], RANGES, 4, lambda points: measured(points, lambda **_: {"pruned": 0.02}), at_once=1)
