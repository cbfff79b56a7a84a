"""Label-only is measured once for a run, budget and seed, here or in another process, with the same outcome."""

from dataclasses import replace

import pytest

from edgeveil.trainer import child_processes
from edgeveil.trainer.attacks.ahead import ahead
from edgeveil.trainer.attacks.findings import Journal
from edgeveil.trainer.attacks.problem import BUDGETS
from edgeveil.trainer.audit import floor as module
from edgeveil.trainer.audit.floor import Floor
from tests.support.small_runs import small_run
from tests.support.trial import short_audit

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def run():
    return small_run()


@pytest.fixture(scope="module")
def measured(run, tmp_path_factory):
    """A floor and its document, measured with little effort."""
    floor = Floor.from_run(run, BUDGETS["quick"], 0, tmp_path_factory.mktemp("kept"))
    with pytest.MonkeyPatch.context() as patch:
        short_audit.read_little(patch)
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
    assert Floor.from_run(run, BUDGETS["quick"], 0, floor.folder).document() == document
    for other in (
        replace(floor, seed=1),
        replace(floor, budget=replace(floor.budget, epochs=3)),
        replace(floor, named=("moments",)),
        replace(floor, dataset=replace(floor.dataset, z=1 - floor.dataset.z)),
        replace(floor, classifiers=dict(zip(floor.classifiers, reversed(floor.classifiers.values()), strict=True))),
    ):
        with pytest.raises(AssertionError, match="measured again"):
            other.document()


def in_a_process(floor, run):
    """Measure it in another process, and wait for that."""
    with ahead(1, Journal(floor.folder / "attacks"), lambda: None) as others:
        floor.begun(run, others)()


def test_what_a_process_measures_is_the_same(run, measured, monkeypatch, tmp_path):
    floor = replace(measured[0], folder=tmp_path)
    with monkeypatch.context() as patch:
        short_audit.read_little(patch)
        module.measured_apart(str(run.folder), floor.budget.name, floor.seed, str(floor.folder))
    monkeypatch.setattr(Floor, "_measured", None)
    assert timeless(floor.document()) == timeless(measured[1])


def test_no_process_is_begun_where_it_is_there_or_the_audit_has_none(run, measured, monkeypatch, tmp_path):
    monkeypatch.setattr(child_processes.subprocess, "Popen", None)
    in_a_process(measured[0], run)
    replace(measured[0], folder=tmp_path).begun(run, None)()
    assert not list(tmp_path.iterdir())


def test_where_the_process_fails_it_is_measured_here(run, measured, monkeypatch, tmp_path):
    monkeypatch.setattr(child_processes.sys, "executable", "/bin/false")
    floor = replace(measured[0], folder=tmp_path)
    monkeypatch.setattr(Floor, "_measured", lambda *_: [{"question": "measured here"}])
    in_a_process(floor, run)
    assert floor.document() == [{"question": "measured here"}]


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
