"""Families that learn in other processes: the same answers for any number of them, and nothing left where one fails."""

import os
import time
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer import child_processes
from edgeveil.trainer.attacks import ahead as module
from edgeveil.trainer.attacks import findings
from edgeveil.trainer.attacks.ahead import Asked, ahead, at_most
from edgeveil.trainer.attacks.families.lda import ShrinkageLDA
from edgeveil.trainer.attacks.families.logistic import Logistic
from edgeveil.trainer.attacks.findings import Journal
from edgeveil.trainer.attacks.problem import BUDGETS
from edgeveil.trainer.attacks.rows import question_of
from edgeveil.trainer.attacks.run_all import attack_all
from tests.support.once import nightly_but
from tests.trainer.attacks.test_question import NONE, made, released

HERE = os.environ.setdefault("EDGEVEIL_TEST_ASKS", str(os.getpid()))  # the processes it starts inherit it
ELSEWHERE = str(os.getpid()) != HERE


class Seeded(ShrinkageLDA):
    """Learns in another process, as networks do, and without TensorFlow."""

    name, seeded = "seeded", True


class Second(Seeded):
    name = "second"


class Dies(Seeded):
    name = "dies"

    def fit(self, problem, seed):
        if ELSEWHERE:
            os._exit(7)
        return super().fit(problem, seed)


class Fails(Seeded):
    name = "fails"

    def fit(self, problem, seed):
        raise BadInput("It always fails.")


class Sleeps(Seeded):
    name = "sleeps"

    def fit(self, problem, seed):
        time.sleep(600)


class Writes(Seeded):
    """Changes its rows, which are pages of a file that processes share."""

    name = "writes"

    def fit(self, problem, seed):
        problem.fit.x[:] = problem.fit.x
        return super().fit(problem, seed)


def asked(journal, leak):
    dataset = made(1000)
    budget = replace(BUDGETS["quick"], journal=journal)
    return question_of(dataset, released(dataset, leak, everywhere=True), budget, NONE, seed=0)


def found(journal, *families, jobs, check=lambda: None, leak=0.4, engine="processes", curve=True):
    with ahead(jobs, journal, check, engine=engine):
        return attack_all(asked(journal, leak), families=families, seed=3, curve=curve)


def without_times(findings):
    return [{**asdict(row), "seconds": 0} for row in findings.rows], findings.curve, findings.permutation


@pytest.mark.parametrize("jobs", [pytest.param(1, marks=pytest.mark.nightly), 2])
def test_any_number_of_processes_finds_the_same(jobs, tmp_path, monkeypatch):
    families = Logistic(), Seeded(), Second()
    one = found(Journal(tmp_path / "here"), *families, jobs=None)
    learn = findings._trained

    def here(problem, family, seed, begins):
        assert not Asked(problem, family, seed).worth_a_process
        return learn(problem, family, seed, begins)

    monkeypatch.setattr(findings, "_trained", here)
    journal = Journal(tmp_path / "there")
    journal.folder.mkdir()
    (journal.folder / "problems-1-0").write_bytes(b"of an audit that was killed")
    np.testing.assert_equal(without_times(found(journal, *families, jobs=jobs)), without_times(one))
    assert {path.suffix for path in journal.folder.iterdir()} == {".npz"}  # the file of the problems has gone


@pytest.fixture
def cluster(monkeypatch):
    """Ray here, whose processes can load these families."""
    pytest.importorskip("ray")
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(Path.cwd()), os.environ.get("PYTHONPATH", "")]))


@pytest.mark.slow
@pytest.mark.nightly  # by day the same in processes
@pytest.mark.usefixtures("cluster")
def test_a_ray_cluster_finds_the_same(tmp_path, monkeypatch):
    one = found(Journal(tmp_path / "here"), Seeded(), jobs=None)
    journal = Journal(tmp_path / "ray")
    monkeypatch.setattr(findings, "_trained", None)  # nothing is learned here
    np.testing.assert_equal(without_times(found(journal, Seeded(), jobs=1, engine="ray")), without_times(one))


@pytest.mark.nightly
@pytest.mark.usefixtures("cluster")
def test_an_interrupt_ends_the_tasks_on_ray(tmp_path):
    since, waited = time.monotonic(), []

    def check():
        waited.append(1)
        if len(waited) == 50:  # of 0.2 s each
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        found(Journal(tmp_path), Sleeps(), jobs=1, check=check, engine="ray")
    assert time.monotonic() - since < 300


@pytest.mark.parametrize("kind", nightly_but((Dies, Writes, type("Local", (Seeded,), {"name": "local"})), Dies))
def test_what_fails_in_a_process_is_learned_here(tmp_path, kind):
    plain = Seeded()
    plain.name = kind.name
    here = found(Journal(tmp_path / "here"), plain, jobs=None, curve=False)
    there = found(Journal(tmp_path / "there"), kind(), jobs=1, curve=False)  # each point of a curve starts another
    np.testing.assert_equal(without_times(there), without_times(here))


def test_an_error_of_a_family_is_the_audits(tmp_path):
    with pytest.raises(BadInput, match="It always fails"):
        found(Journal(tmp_path), Fails(), jobs=1)


@pytest.fixture
def begun(monkeypatch):
    """The processes that were begun."""
    kept, popen = [], child_processes.subprocess.Popen

    def remembered(*about, **settings):
        kept.append(popen(*about, **settings))
        return kept[-1]

    monkeypatch.setattr(child_processes.subprocess, "Popen", remembered)
    return kept


def test_an_interrupt_ends_all_processes_and_keeps_what_was_learned(tmp_path, begun):
    journal = Journal(tmp_path)

    def check():
        if len(journal) and len(begun) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        found(journal, Sleeps(), Seeded(), jobs=2, check=check)
    assert [process.poll() is None for process in begun] == [False, False]
    assert {path.suffix for path in tmp_path.iterdir()} == {".npz"}
    told = Journal(tmp_path)
    found(told, Seeded(), jobs=1)
    assert len(begun) == 3  # for the learning curve alone
    assert told.ahead is None


@pytest.mark.nightly  # by day an interrupt ends them, above
def test_once_all_is_read_what_has_not_ended_is_not_waited_for(tmp_path, begun):
    since = time.monotonic()
    families = Seeded(), Sleeps()
    left = found(Journal(tmp_path), *families, jobs=2, leak=1.0)
    assert [one.name for one in left.not_run] == ["sleeps"]
    assert "already reads z" in left.not_run[0].reason
    assert time.monotonic() - since < 300
    assert all(process.poll() is not None for process in begun)


def test_a_link_that_waits_under_the_name_of_the_file_is_not_followed(tmp_path):
    (tmp_path / "other").write_text("mine")
    (tmp_path / "problems").symlink_to(tmp_path / "other")
    assert not module._write(tmp_path / "problems", [1])
    assert (tmp_path / "other").read_text() == "mine"
    assert module._write(tmp_path / "problems", [1])
    assert (tmp_path / "problems").stat().st_mode & 0o777 == 0o600


def test_problems_that_the_disk_does_not_hold_are_learned_here(tmp_path, monkeypatch):
    monkeypatch.setattr(child_processes.subprocess, "Popen", None)
    opened, asked = os.open, []

    def full(path, *settings, **more):
        if Path(path).name.startswith(module.PROBLEMS):
            asked.append(path)
            raise OSError(28, "No space left on device")
        return opened(path, *settings, **more)

    monkeypatch.setattr(module.os, "open", full)
    assert found(Journal(tmp_path), Seeded(), jobs=1).rows[0].name == "seeded"
    assert asked
    assert {path.suffix for path in tmp_path.iterdir()} == {".npz"}


def test_jobs_are_fewer_where_memory_is_short(monkeypatch, capsys):
    assert at_most(3, 10) == 3
    monkeypatch.setattr(module, "free_memory", lambda: 2e9)
    assert at_most(3, 10) == 2
    assert "Memory is free for 2 of 3 jobs: each needs about 0.8 GB." in capsys.readouterr().err
    assert at_most(3, 10**9) == 1
    with pytest.raises(BadInput, match="expected 1 or more; got 0"):
        at_most(0, 10)
