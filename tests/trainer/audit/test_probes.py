"""Probes find what was planted, and say what they lack where data are too few."""

import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from edgeveil.trainer.attacks.problem import BUDGETS, Codes, Released
from edgeveil.trainer.attacks.sequences import LENGTHS
from edgeveil.trainer.audit import probes
from edgeveil.trainer.audit.findings import RAW, Finding
from edgeveil.trainer.audit.probes import areas
from edgeveil.trainer.datasets.base import Dataset, InputSpec, Slices

VECTORS = InputSpec("vector", (6,), "float32", None, None)


def people(count: int, each: int, *, seed: int = 0, who: float = 1.0, slices: int = 3) -> tuple[Dataset, np.ndarray]:
    """Made-up readings in which every person has a mean of their own, ``who`` times the spread of their readings."""
    rng = np.random.default_rng(seed)
    subject = np.repeat(np.arange(count), each)
    y, z = rng.integers(0, 2, len(subject)), (subject % 2)
    x = rng.normal(size=(len(subject), 6)) + who * rng.normal(size=(count, 6))[subject]
    x[:, 0] += 3 * y
    place = subject // 2 % slices if slices == 4 else subject % 3
    cut = Slices(*(rng.permutation(np.flatnonzero(place == part)) for part in range(slices)))
    dataset = Dataset(
        name="people",
        x=x.astype(np.float32),
        y=y,
        z=z,
        y_names=("a", "b"),
        z_names=("c", "d"),
        theta=np.full((2, 2), 0.5),
        input=VECTORS,
        slices=cut,
        cluster=subject,
        cluster_kind="subject",
    )
    return dataset, cut.rows()


def sent(dataset: Dataset, rows: np.ndarray, x: np.ndarray) -> Released:
    """``x`` (n, 6) as what left for those rows."""
    part = dataset.rows(rows)
    return Released(x.astype(np.float32), part.y, part.z, part.cluster)


def ran(probe: str, dataset: Dataset, left: Released) -> list[Finding]:
    """The findings of a probe of what left; each can be in a document, and is about what the probe asks."""
    about = SimpleNamespace(released=left, dataset=dataset, budget=BUDGETS["quick"], seed=0, there=None)
    kind = probes.PROBES[probe]
    found = kind.load()().run(about)
    assert [Finding.from_json(json.loads(json.dumps(one.as_json(), allow_nan=False))).name for one in found]
    assert {(one.question, one.kind) for one in found} == {(kind.facts["asks"], "probe")}
    return found


def asked(probe: str, dataset: Dataset, rows: np.ndarray, x: np.ndarray) -> dict[tuple[str, str], Finding]:
    """The findings of a probe by name and figure, those of raw readings by "raw"."""
    found = ran(probe, dataset, sent(dataset, rows, x))
    return {("raw" if one.of == RAW else one.name, one.figure): one for one in found}


def test_a_hundredth_of_the_frames_copied_is_counted_as_that():
    dataset, rows = people(60, 40)
    x = np.zeros((len(rows), 6), np.float32)
    x[:, 0] = dataset.x[rows][:, 0]  # one value as it was is no copy
    copied = np.random.default_rng(1).random(len(rows)) < 0.01
    x[copied] = dataset.x[rows][copied]
    found = asked("copies", dataset, rows, x)["test frames that leave unchanged", "share"]
    assert found.value == pytest.approx(copied[-found.rows :].mean())
    assert 0 < found.interval[0] < 0.01 < found.interval[1] < 0.03


def test_a_reading_of_somebody_else_is_counted_too():
    dataset, rows = people(60, 40)
    first = len(rows) - len(dataset.slices.test)
    x = np.resize(dataset.x[rows][:first], (len(rows), 6))
    found = asked("copies", dataset, rows, x)
    assert found["test frames that are some training reading", "share"].value == 1.0
    assert found["test frames that leave unchanged", "share"].value == 0.0


@pytest.mark.parametrize(("who", "low", "high"), [(3.0, 0.95, 1.0), (0.0, 0.35, 0.65)], ids=["told apart", "all alike"])
def test_people_never_seen_are_linked_as_far_as_they_differ(who, low, high):
    dataset, rows = people(36, 20, who=who)
    found = asked("linkage", dataset, rows, dataset.x[rows])
    area, error = found["pairs of releases", "auc"], found["pairs of releases", "eer"]
    assert low <= area.value <= high
    assert area.interval[0] <= area.value <= area.interval[1]
    assert error.value == pytest.approx(1 - area.value, abs=0.12)
    assert "neither the attacker nor the perturber" in area.text
    assert found["raw", "auc"].value == pytest.approx(area.value, abs=0.05)


def test_an_attacker_learns_who_is_who_from_people_whom_the_perturber_never_saw():
    """What tells people apart leaves only of those whom the perturber was not trained on."""
    dataset, rows = people(64, 20, who=3.0, slices=4)
    trained = np.isin(rows, dataset.slices.training())
    noise = np.random.default_rng(4).normal(size=(len(rows), 6))
    found = asked("linkage", dataset, rows, np.where(trained[:, None], noise, dataset.x[rows]))
    assert found["pairs of releases", "auc"].interval[0] > 0.9
    none = asked("linkage", dataset, rows, noise)["pairs of releases", "auc"]
    assert none.interval[0] <= 0.5 <= none.interval[1]


def test_sessions_are_judged_by_samples_that_never_trained_the_perturber():
    dataset, rows = people(24, 40, who=3.0)
    person = dataset.cluster
    session = person * 8 + np.arange(len(person)) % 8
    order = np.random.default_rng(5).permutation(len(person))
    cut = Slices(*(order[session[order] % 4 == part] for part in range(4)))
    dataset = replace(
        dataset, z=person, z_names=tuple(map(str, range(24))), cluster=session, cluster_kind="session", slices=cut
    )
    rows = cut.rows()
    trained = np.isin(rows, cut.training())
    noise = np.random.default_rng(4).normal(size=(len(rows), 6))
    found = asked("linkage", dataset, rows, np.where(trained[:, None], noise, dataset.x[rows]))[
        "pairs of releases", "auc"
    ]
    assert found.interval[0] > 0.9
    assert "trained on other samples of them" in found.text


def test_what_says_nothing_of_people_links_nobody_though_they_differ():
    dataset, rows = people(36, 20, who=3.0)
    found = asked("linkage", dataset, rows, np.eye(6)[dataset.y[rows]])
    assert found["pairs of releases", "auc"].interval[0] <= 0.5 <= found["pairs of releases", "auc"].interval[1]
    assert found["raw", "auc"].interval[0] > 0.8


@pytest.mark.nightly  # by day sessions, above
def test_sessions_of_one_z_are_linked_across_people_splits():
    dataset, rows = people(24, 20, who=3.0)
    person = dataset.cluster
    session = person * 4 + np.arange(len(person)) % 4
    dataset = replace(dataset, z=person, z_names=tuple(map(str, range(24))), cluster=session, cluster_kind="session")
    found = asked("linkage", dataset, rows, dataset.x[rows])["pairs of releases", "auc"]
    assert found.interval[0] > 0.9
    room = 9 * np.random.default_rng(3).normal(size=(len(session), 6))[session]  # what a session has in common
    found = asked("linkage", dataset, rows, (people(24, 20, who=0.0)[0].x + room)[rows])["pairs of releases", "auc"]
    assert found.interval[0] <= 0.5 <= found.interval[1] + 0.1
    assert "the perturber was trained on them" in found.text


def test_too_few_people_are_said_with_the_number_needed():
    dataset, rows = people(9, 10)
    few = dataset.slices.test[np.isin(dataset.cluster[dataset.slices.test], [2])]
    dataset = replace(dataset, slices=replace(dataset.slices, test=few))
    rows = np.concatenate([dataset.slices.classifiers, dataset.slices.perturber, few])
    found = asked("linkage", dataset, rows, dataset.x[rows])
    assert (
        found["pairs of releases", ""].not_run == "6 people to learn on and 1 to judge by; at least 4 and 2 are needed"
    )
    unnamed = replace(dataset, cluster=None, cluster_kind=None)
    assert "give `subject`" in asked("linkage", unnamed, rows, dataset.x[rows])["pairs of releases", ""].not_run
    assert "at least 200 of 8" in next(iter(asked("membership", dataset, rows, dataset.x[rows]).values())).not_run


def test_membership_is_found_where_training_rows_are_treated_better_and_only_there():
    rng = np.random.default_rng(7)
    dataset, rows = people(60, 40)
    member = np.isin(rows, dataset.slices.perturber)
    noise = rng.normal(size=(len(rows), 6))
    fair = asked("membership", dataset, rows, dataset.x[rows] + noise)
    for name, found in fair.items():
        assert found.interval[0] <= found.null + 0.1, name  # forty people differ a little by chance
    spared = asked("membership", dataset, rows, dataset.x[rows] + noise * np.where(member, 0.2, 1.0)[:, None])
    assert spared["from x, x' and y", "auc"].interval[0] > 0.9
    assert spared["from x, x' and y", "recognised"].interval[0] > 0.3
    marked = asked("membership", dataset, rows, dataset.x[rows] + 9.0 * member[:, None])
    assert marked["from x' and y", "auc"].interval[0] > 0.95


def test_areas_are_those_of_the_textbook():
    score, positive = np.array([0.1, 0.4, 0.35, 0.8]), np.array([False, False, True, True])
    assert areas.area(areas.curve(score, positive)) == 0.75
    assert areas.equal_error_rate(areas.curve(score, positive)) == pytest.approx(0.5)
    assert areas.equal_error_rate(areas.curve(np.zeros(4), positive)) == pytest.approx(0.5)
    assert areas.recognised(areas.curve(score, positive)) == 0.5
    assert areas.recognised(areas.curve(np.zeros(4), positive)) == 0.0


def test_linked_codes_add_up_and_bayes_knows_more_than_counting():
    """A code that is z a quarter of the time, behind a channel that repeats it half of the time."""
    rng = np.random.default_rng(8)
    dataset, rows = people(300, 24)
    n = len(rows)
    y, z = dataset.y[rows], dataset.z[rows]
    code = y * 8 + np.where(rng.random(n) < 0.25, z, rng.integers(0, 8, n))
    q = np.kron(np.eye(2), 0.5 * np.eye(8) + np.full((8, 8), 0.5 / 8))
    received = (q[code].cumsum(axis=1) <= rng.random(n)[:, None]).sum(axis=1)
    left = replace(sent(dataset, rows, np.zeros((n, 6))), codes=Codes(received, code, q))
    found = {one.name: one for one in ran("codes", dataset, left)}
    assert len(found) == 3 * len(LENGTHS)
    # 1/8 of the codes that arrive are z, the others say nothing; of these a quarter names a z, rightly or not.
    assert found["1 linked, Bayes knowing the channel"].value == pytest.approx(0.125 + 0.875 / 2, abs=0.04)
    for name in ("Bayes knowing the channel", "sum of log-posteriors", "forest on histograms"):
        values = [found[f"{length} linked, {name}"].value for length in (1, 4, 16)]
        assert values[2] > max(values[0] + 0.08, found[f"16 linked, {name}"].null), name
    (nothing,) = ran("codes", dataset, replace(left, codes=None))
    assert (nothing.name, nothing.not_run) == ("linked codes", "no code leaves")


@pytest.mark.nightly  # by day linked codes, above
def test_codes_that_tell_only_of_fresh_rows_are_found_by_learning_on_those_alone():
    """A leak of which the rows that trained the codebook show nothing, or the opposite."""
    rng = np.random.default_rng(9)
    dataset, rows = people(400, 10, slices=4)
    z, leaks = dataset.z[rows], rng.random(len(rows)) < 0.7
    trained = np.isin(rows, dataset.slices.training())
    code = np.where(leaks, np.where(trained, 1 - z, z), rng.integers(0, 2, len(rows)))
    left = replace(sent(dataset, rows, np.zeros((len(rows), 6))), codes=Codes(code, None, None))
    found = {(one.name, one.learned_on): one for one in ran("codes", dataset, left)}
    for name in ("sum of log-posteriors", "forest on histograms"):
        assert found[f"4 linked, {name}", "fresh"].interval[0] > 0.9, name
        assert found[f"4 linked, {name}", "both"].value < 0.3, name


def test_members_are_told_from_the_rows_of_both_slices_that_are_none():
    rng = np.random.default_rng(7)
    dataset, rows = people(64, 40, slices=4)
    member = np.isin(rows, dataset.slices.perturber)
    noise = rng.normal(size=(len(rows), 6))
    spared = asked("membership", dataset, rows, dataset.x[rows] + noise * np.where(member, 0.2, 1.0)[:, None])
    found = spared["from x, x' and y", "auc"]
    assert found.interval[0] > 0.9
    assert found.rows == sum(
        len(part) for part in (dataset.slices.perturber, dataset.slices.attack, dataset.slices.test)
    )
