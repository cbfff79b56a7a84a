"""Jobs come back by name, those whose process died too; a cluster that is not there is said."""

import sys
from types import SimpleNamespace

import pytest

from edgeveil.edge_runtime.errors import DeviceFailed
from edgeveil.trainer.child_processes import Job, processes, ray_tasks

GOOD = [Job(f"good {number}", "json:loads", {"s": f'{{"number": {number}}}'}) for number in range(5)]
DIES = Job("dies", "os:_exit", {"status": 7})


@pytest.mark.parametrize("fresh", [False, True])
def test_every_job_comes_back_and_one_whose_process_died_is_told(tmp_path, fresh):
    jobs = [*GOOD[:2], DIES, *GOOD[2 : 2 if fresh else 5]]
    with processes(2, fresh=fresh, logs=tmp_path if fresh else None) as run:
        found = {job.name: answer for job, answer in run(jobs)}
        assert [answer for _, answer in run(GOOD[:1])] == [{"number": 0}]
    assert found.pop("dies")["crashed"].startswith("its process ended with code 7")
    assert found == {job.name: job.run() for job in jobs if job is not DIES}
    assert [path.name for path in tmp_path.iterdir() if path.name == "dies.log"] == (["dies.log"] if fresh else [])


def test_workers_give_memory_back_that_arrow_would_hold():
    with processes(1) as run:
        ((_, answer),) = run([Job("pool", "tests.trainer.test_engines:pool", {})])
    assert answer == {"pool": "system"}


def pool():
    import pyarrow

    return {"pool": pyarrow.default_memory_pool().backend_name}


def test_a_ray_that_is_not_there_or_does_not_start_is_said(monkeypatch):
    def times_out(**_):
        raise Exception("the node timed out")

    monkeypatch.setitem(sys.modules, "ray", SimpleNamespace(init=times_out))
    with pytest.raises(DeviceFailed, match="Ray did not start"), ray_tasks(1, instead="EDGEVEIL_JOBS=N"):
        pass
    monkeypatch.setitem(sys.modules, "ray", None)
    with (
        pytest.raises(DeviceFailed, match=r"pip install 'edgeveil\[ray\]', or use EDGEVEIL_JOBS=N"),
        ray_tasks(1, instead="EDGEVEIL_JOBS=N"),
    ):
        pass
