"""Label-only is measured once for a run, budget and seed, beside the audit where that pays, with the same outcome."""

from dataclasses import replace

import pytest

from edgeveil.trainer.attacks.problem import BUDGETS
from edgeveil.trainer.audit import floor as module
from edgeveil.trainer.audit.floor import Floor
from edgeveil.trainer.train import train
from tests.support.small_runs import small_recipe, write_npz

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("floor")
    return train(small_recipe(write_npz(folder)), folder / "run")


@pytest.fixture(scope="module")
def measured(run, tmp_path_factory):
    """A floor and its document."""
    floor = Floor.of(run, BUDGETS["quick"], 0, tmp_path_factory.mktemp("kept"))
    return floor, floor.document()


@pytest.fixture
def never(monkeypatch):
    """Measuring here is a failure."""

    def measure(*_):
        raise AssertionError("measured again")

    monkeypatch.setattr(Floor, "_measured", measure)


def timeless(value):
    if isinstance(value, dict):
        return {key: timeless(one) for key, one in value.items() if key != "seconds"}
    return [timeless(one) for one in value] if isinstance(value, list) else value


def test_the_second_audit_of_a_run_takes_it_from_the_first(run, measured, never):
    floor, document = measured
    assert Floor.of(run, BUDGETS["quick"], 0, floor.folder).document() == document
    for other in (
        replace(floor, seed=1),
        replace(floor, budget=replace(floor.budget, epochs=3)),
        replace(floor, named=("moments",)),
        replace(floor, dataset=replace(floor.dataset, z=1 - floor.dataset.z)),
        replace(floor, classifiers=dict(zip(floor.classifiers, reversed(floor.classifiers.values()), strict=True))),
    ):
        with pytest.raises(AssertionError, match="measured again"):
            other.document()


def test_a_process_beside_finds_the_same(run, measured, never, monkeypatch, tmp_path):
    monkeypatch.setattr(module, "WORTH_A_PROCESS", 0)
    monkeypatch.setattr(module, "_cores", lambda: 2)
    floor = replace(measured[0], folder=tmp_path)
    with floor.measured_beside(run) as ended:
        ended()
    assert timeless(floor.document()) == timeless(measured[1])


@pytest.mark.parametrize(("cores", "worth"), [(1, 0), (2, 1e9)], ids=["one core", "little data"])
def test_no_process_is_begun_where_it_does_not_pay(run, measured, monkeypatch, tmp_path, cores, worth):
    monkeypatch.setattr(module, "WORTH_A_PROCESS", worth)
    monkeypatch.setattr(module, "_cores", lambda: cores)
    monkeypatch.setattr(module.subprocess, "Popen", None)
    with replace(measured[0], folder=tmp_path).measured_beside(run) as ended:
        ended()
    assert not list(tmp_path.iterdir())


def test_where_the_process_fails_it_is_measured_here(run, measured, monkeypatch, tmp_path):
    monkeypatch.setattr(module, "WORTH_A_PROCESS", 0)
    monkeypatch.setattr(module, "_cores", lambda: 2)
    monkeypatch.setattr(module.sys, "executable", "/bin/false")
    floor = replace(measured[0], folder=tmp_path)
    monkeypatch.setattr(Floor, "_measured", lambda *_: [{"question": "measured here"}])
    with floor.measured_beside(run) as ended:
        ended()
        assert floor.document() == [{"question": "measured here"}]


def test_an_audit_that_ends_early_ends_the_process(run, measured, monkeypatch, tmp_path):
    monkeypatch.setattr(module, "WORTH_A_PROCESS", 0)
    monkeypatch.setattr(module, "_cores", lambda: 2)
    begun, popen = [], module.subprocess.Popen

    def remembered(*about, **settings):
        begun.append(popen(*about, **settings))
        return begun[0]

    monkeypatch.setattr(module.subprocess, "Popen", remembered)

    def broken():
        with replace(measured[0], folder=tmp_path).measured_beside(run):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        broken()
    assert begun[0].returncode is not None


def test_a_floor_that_cannot_be_read_is_measured_again(measured, monkeypatch, tmp_path):
    floor = replace(measured[0], folder=tmp_path)
    monkeypatch.setattr(Floor, "_measured", lambda *_: [{"question": "measured here"}])
    floor._path.write_text('{"half')
    assert floor.document() == [{"question": "measured here"}]
    assert replace(floor).document() == [{"question": "measured here"}]


def test_another_family_of_attacks_makes_another_floor(measured, monkeypatch):
    before = replace(measured[0])._path
    monkeypatch.setattr(module, "adversaries", lambda: (module.Fixed(),))
    assert replace(measured[0])._path != before
