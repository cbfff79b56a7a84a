"""A board that runs for a month: its parts do not fill the disk, and no part goes that should stay."""

import numpy as np
import pytest

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.sinks import open_sink
from edgeveil.edge_runtime.sinks.group import Keep, retention
from tests.edge_runtime.sinks.test_rotating import OUTPUTS, frame, names, numbers


def written(folder, options, count=40):
    sink = open_sink(f"npz:{folder}?{options}", OUTPUTS)
    sizes = []
    for n in range(count):
        sink.write(frame(n))
        sizes.append(sum(path.stat().st_size for path in folder.iterdir()))
    sink.close()
    return sizes


def test_only_the_newest_parts_stay(tmp_path):
    written(tmp_path / "out", "rotate=20kB&keep=3")
    assert len(names(tmp_path / "out")) == 3
    assert numbers(tmp_path / "out")[-1] == 39


def test_the_disk_does_not_grow_beyond_the_size_that_was_named_and_one_part(tmp_path):
    sizes = written(tmp_path / "out", "rotate=20kB&keep=60kB", count=80)
    assert max(sizes) <= 60_000 + 2 * 20_480
    assert sum(path.stat().st_size for path in (tmp_path / "out").iterdir()) <= 60_000


def test_all_stay_without_it(tmp_path):
    written(tmp_path / "out", "rotate=20kB")
    assert numbers(tmp_path / "out") == list(range(40))


def test_a_restart_removes_what_was_left_and_nothing_that_is_no_part(tmp_path):
    written(tmp_path / "out", "rotate=20kB")
    other = tmp_path / "out/part-notes.txt"
    other.write_text("mine")
    sink = open_sink(f"npz:{tmp_path}/out?rotate=20kB&keep=2", OUTPUTS)
    kept = [name for name in names(tmp_path / "out") if name.endswith(".npz")]
    assert len([name for name in kept if np.load(tmp_path / "out" / name)["index"].size]) == 2
    assert other.read_text() == "mine"
    sink.close()


def test_folders_of_pictures_go_whole(tmp_path):
    sink = open_sink(f"images:{tmp_path}/out?rotate=20kB&keep=2", OUTPUTS)
    for n in range(20):
        sink.write(frame(n))
    sink.close()
    assert len(names(tmp_path / "out")) == 2


@pytest.mark.parametrize(("text", "keep"), [("30", Keep(30, None)), ("10GB", Keep(None, 10**10))])
def test_what_may_stand_there(text, keep):
    assert retention(text) == keep


@pytest.mark.parametrize("options", ["rotate=20kB&keep=0", "rotate=20kB&keep=all", "keep=3"])
def test_what_makes_no_sense_is_one_sentence(tmp_path, options):
    with pytest.raises(BadInput, match="expected"):
        open_sink(f"npz:{tmp_path}/out?{options}", OUTPUTS)
