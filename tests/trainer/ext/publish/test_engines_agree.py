"""One job, two, or Ray, in one go or killed and gone on with: the same bytes, and no row twice or missing."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow.parquet
import pytest

from tests.support import bundles
from tests.support.publishing import archives

PEOPLE = 1_150  # who come about 2,000 times
CHUNKS = 8
EDGEVEIL = [sys.executable, "-m", "edgeveil.trainer.cli.main"]


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    """About 2,000 rows, their publication by one process in ``one``."""
    found = archives.make(tmp_path_factory.mktemp("archive"), people=PEOPLE)
    found.published("one", chunk_rows=256)
    return found


def started(archive, out, *options):
    return subprocess.Popen(
        [*EDGEVEIL, *archive.command(out, "--chunk-rows", 256, *options)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        text=True,
    )


def chunks(folder):
    return sorted(folder.glob("work/chunk-*.npy"))


def wait_for(folder, count, child):
    """Until so many chunks are there."""
    deadline = time.monotonic() + 60
    while len(chunks(folder)) < count and child.poll() is None and time.monotonic() < deadline:
        time.sleep(0.002)
    assert len(chunks(folder)) >= count


def ended(child):
    """Its exit code and what it said."""
    out, err = child.communicate(timeout=120)
    return child.returncode, out, err


def children(pid):
    return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def rows(folder):
    tables = [pyarrow.parquet.read_table(path) for path in sorted(folder.glob("part-*"))]
    return sum(table.num_rows for table in tables)


def test_two_jobs_make_what_one_makes(archive):
    assert len(archive.parts("one")) == CHUNKS
    archive.published("two", chunk_rows=256, jobs=2)
    assert archive.parts("two") == archive.parts("one")


@pytest.mark.parametrize("shares", [(0.5,), pytest.param((0.2, 0.5, 0.8), marks=pytest.mark.nightly)], ids=len)
def test_killed_and_gone_on_with(archive, shares):
    for share in shares:
        child = started(archive, "killed")
        wait_for(archive["killed"], round(share * CHUNKS), child)
        os.killpg(child.pid, signal.SIGKILL)
        ended(child)
        assert not archive["killed/publication.json"].exists()
    before = {path.name: path.stat().st_ino for path in chunks(archive["killed"])}
    child = started(archive, "killed", "--json")
    code, out, err = ended(child)
    assert code == 0, err
    assert len(before) >= round(shares[-1] * CHUNKS)
    assert archive.parts("killed") == archive.parts("one")
    assert json.loads(out)["rows"] == rows(archive["one"])


def test_a_worker_that_dies_alone_is_replaced(archive):
    child = started(archive, "worker", "--jobs", 2)
    wait_for(archive["worker"], 2, child)
    with contextlib.suppress(ProcessLookupError):
        os.kill(children(child.pid)[0], signal.SIGKILL)
    code, _, err = ended(child)
    assert code == 0, err
    assert archive.parts("worker") == archive.parts("one")


@pytest.mark.nightly
def test_a_ray_cluster_makes_the_same(archive):
    pytest.importorskip("ray")
    archive.published("ray", chunk_rows=256, jobs=2, engine="ray")
    assert archive.parts("ray") == archive.parts("one")


def test_ctrl_c_is_130_and_what_was_drawn_stays_drawn(tmp_path):
    own = archives.make(tmp_path, bundle=bundles.laplace_example(), people=400)
    child = started(own, "out", "--jobs", 2)
    wait_for(own["out"], 1, child)
    workers = children(child.pid)
    child.send_signal(signal.SIGINT)
    code, _, err = ended(child)
    assert code == 130
    assert "The same command continues" in err
    assert not [pid for pid in workers if Path(f"/proc/{pid}/cmdline").exists()]
    drawn = {frame.tobytes() for path in chunks(own["out"]) for frame in np.load(path)["frame"]}
    assert drawn
    own.published("out", chunk_rows=256)
    there = [pyarrow.parquet.read_table(path).column("frame").to_pylist() for path in sorted(own["out"].glob("part-*"))]
    assert drawn <= {frame for many in there for frame in many}
