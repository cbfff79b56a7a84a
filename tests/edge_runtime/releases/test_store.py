"""edgeveil.edge_runtime.releases.store: whatever happens, the board runs a whole old or a whole new release."""

import contextlib
import random
import shutil
from pathlib import Path

import pytest

from edgeveil.edge_runtime.bundle.board_state import COPY_FILE, STATE_FILE, State
from edgeveil.edge_runtime.bundle.trust_file import Trust
from edgeveil.edge_runtime.errors import BadInput, BundleRefused, DeviceFailed
from edgeveil.edge_runtime.releases.store import Releases, RolledBack
from tests.support import seeds
from tests.support.boards.power_cut import Killed, Volume, WrittenDown, contents, write_out
from tests.support.bundles import KEY, STRANGER, make_bundle, trusted


def trust(floor):
    return Trust([trusted(KEY)], floor=floor)


def passes(_folder, _bundle):
    """A trial that all pass."""


def fails(_folder, _bundle):
    """A trial that none pass."""
    raise DeviceFailed("its golden check failed")


@pytest.fixture(scope="module")
def bundles(tmp_path_factory):
    """Three releases of rising security version, as bytes."""
    folder = tmp_path_factory.mktemp("bundles")

    def version(number):
        def change(manifest, _members):
            manifest["security_version"] = number
            manifest["name"] = f"release-{number}"

        return make_bundle(folder, change=change, name=f"{number}.veil").path.read_bytes()

    return [version(number) for number in (1, 2, 3)]


def board(root, disk=None):
    root.mkdir(exist_ok=True)
    return Releases(str(root), trust, disk)


@pytest.fixture
def tmp_path(in_memory):
    return in_memory


@pytest.fixture
def old(tmp_path, bundles):
    """A board that runs the first release."""
    releases = board(tmp_path / "board")
    assert releases.install(bundles[0], passes) is True
    return releases


def test_the_first_release_is_committed(old):
    state = old.state()
    assert old.current == state.committed
    assert (state.previous, state.floor, state.failed) == (None, 1, {})
    assert old.read(old.current).manifest.name == "release-1"


def test_what_runs_already_is_left_alone(old, bundles):
    def touched():
        return {p: p.lstat().st_mtime_ns for p in Path(old.root).rglob("*") if p.name != "lock"}

    before = touched()
    assert old.install(bundles[0], fails) is False
    assert before == touched()


def test_a_new_release_takes_over_and_the_floor_rises(old, bundles):
    first = old.current
    assert old.install(bundles[1], passes) is True
    state = old.state()
    assert (state.committed, state.previous, state.floor) == (old.current, first, 2)
    with pytest.raises(BundleRefused) as refused:
        old.rollback()
    assert refused.value.reason == "rolled-back"
    assert old.current == state.committed


def test_the_floor_rises_only_after_the_trial(old, bundles):
    first = old.current
    with pytest.raises(RolledBack, match="golden check"):
        old.install(bundles[1], fails)
    state = old.state()
    assert (state.committed, old.current, state.floor) == (first, first, 1)
    assert list(state.failed.values()) == [1]


def test_a_release_that_keeps_failing_is_not_tried_for_ever(old, bundles):
    for _ in range(3):
        with pytest.raises(RolledBack):
            old.install(bundles[1], fails)
    with pytest.raises(BundleRefused) as refused:
        old.install(bundles[1], passes)
    assert refused.value.reason == "failed-before"
    assert old.install(bundles[1], passes, again=True) is True
    assert old.state().failed == {}


def test_rollback_and_forth(tmp_path, bundles):
    releases = Releases(str(tmp_path), lambda _floor: Trust([trusted(KEY)], floor=0))
    releases.install(bundles[0], passes)
    first = releases.current
    releases.install(bundles[1], passes)
    second = releases.current
    assert releases.rollback() == first == releases.current
    assert releases.rollback() == second == releases.current


def test_nowhere_to_go_back_to(old):
    with pytest.raises(BadInput, match="no previous"):
        old.rollback()


def test_a_strangers_bundle_changes_nothing(old, tmp_path):
    stranger = make_bundle(tmp_path, key=STRANGER).path.read_bytes()
    disk = WrittenDown()
    with pytest.raises(BundleRefused) as refused:
        board(tmp_path / "board", disk).install(stranger, passes)
    assert refused.value.reason == "untrusted-key"
    assert {name for name, *_ in disk.log} <= {"sync_folder"}


def test_a_damaged_state_is_said(old, tmp_path):
    (tmp_path / "board" / "state.json").write_bytes(b'{"schema":1')
    with pytest.raises(DeviceFailed, match="damaged"):
        old.install(b"", passes)


def test_old_releases_are_removed_and_these_two_stay(tmp_path, bundles):
    releases = board(tmp_path / "board")
    for data in bundles:
        releases.install(data, passes)
    assert len(releases.prune(1)) == 1
    assert sorted(p.name for p in (tmp_path / "board" / "releases").iterdir()) == sorted(
        [releases.state().committed, releases.state().previous]
    )


# Power cuts ---------------------------------------------------------------------------------------------------------


def install(root, data, trial, disk):
    """Flash over what is there; the second line of the log of a failed trial is that it was undone."""
    with contextlib.suppress(RolledBack):
        board(root, disk).install(data, trial)


def recover(root, _data, _trial, disk):
    """Come up again after a power cut."""
    board(root, disk).recover()


def written_down(before, root, action, data, trial):
    """The log of one action on a copy of the board ``before``, in ``before``'s own paths."""
    shutil.copytree(before, root, symlinks=True)
    disk = WrittenDown()
    action(root, data, trial, disk)
    return [
        tuple(part.replace(str(root), str(before)) if isinstance(part, str) else part for part in one)
        for one in disk.log
    ]


def after_every_cut(before, log, place, *, states):
    """(whether the action was over, what is wrong) for each state that a power cut at any point may leave."""
    volume, rng = Volume(before), random.Random(seeds.seed(0))  # noqa: S311 - states to try, not secrets
    known = set(), set()  # before the end, and at the end: none is tried twice
    for step in range(len(log) + 1):
        if step:
            volume.apply(log[step - 1])
        for tree in volume.states(rng, states):
            came, found = known[step == len(log)], contents(tree)
            if found in came:
                continue
            came.add(found)
            shutil.rmtree(place, ignore_errors=True)
            place.mkdir()
            write_out(tree, place)
            yield step == len(log), place


def broken(place, allowed):
    """What is wrong with a board that comes up again, or None. ``allowed``: pairs of release and floor."""
    releases = board(place, WrittenDown())  # nothing is cut off here: the disk need not be waited for
    try:
        releases.recover()
        state = releases.state()
    except DeviceFailed as error:
        return str(error)
    current = releases.current
    if (current, state.floor) not in allowed:
        return f"{current} with floor {state.floor}"
    if current is not None and releases.read(current) is None:
        return f"{current} is not whole"
    return None if current == state.committed else "recovered, and on trial all the same"


def wrong_states(before, log, place, over, *, states=30):
    """Count the states, and yield what is wrong with each that is: before the end the old release may run as well."""
    first = (board(before).current, board(before).state().floor)
    for done, tree in after_every_cut(before, log, place, states=states):
        kept = [(tree / name).read_bytes() if (tree / name).exists() else b"" for name in (STATE_FILE, COPY_FILE)]
        twice = not done or kept[0] == kept[1]
        yield broken(tree, {over} if done else {first, over}) or (None if twice else "it was kept in one place alone")


@pytest.fixture
def scene(tmp_path, bundles):
    """A board that runs the first release, and the pair (release, floor) of the second."""
    before, after = tmp_path / "before", tmp_path / "second"
    board(before).install(bundles[0], passes)
    board(after).install(bundles[1], passes)
    return before, (board(before).current, 1), (board(after).current, 2)


@pytest.mark.parametrize("trial", [passes, fails])
def test_after_any_power_cut_the_board_runs_a_whole_release(tmp_path, bundles, scene, trial):
    before, first, second = scene
    log = written_down(before, tmp_path / "board", install, bundles[1], trial)
    found = list(wrong_states(before, log, tmp_path / "after", second if trial is passes else first))
    assert len(found) >= 100  # none of them twice
    assert set(found) == {None}


def test_a_power_cut_while_it_comes_up_again(tmp_path, bundles, scene):
    before, first, _ = scene

    def pulls_the_plug(_folder, _bundle):
        raise Killed

    with pytest.raises(Killed):
        board(before).install(bundles[1], pulls_the_plug)
    assert board(before).current != first[0]
    log = written_down(before, tmp_path / "board", recover, None, None)
    found = [broken(tree, {first}) for _, tree in after_every_cut(before, log, tmp_path / "after", states=20)]
    assert len(found) >= 50
    assert set(found) == {None}


def test_every_single_fsync_is_needed(tmp_path, bundles, scene):
    before, _, second = scene
    log = written_down(before, tmp_path / "board", install, bundles[1], passes)
    syncs = [number for number, one in enumerate(log) if one[0] in ("sync", "sync_folder")]
    assert len(syncs) == 8
    # The first is of a board that comes up and has nothing to put right.
    for number in syncs[1:]:
        less = log[:number] + log[number + 1 :]
        noticed = any(wrong_states(before, less, tmp_path / "after", second, states=4))
        assert noticed, f"{log[number]} could be left out and nobody would notice"


def test_a_process_that_is_killed_anywhere_leaves_a_board_that_goes_on(tmp_path, bundles, scene):
    before, first, second = scene
    stops = 0
    while True:
        root = tmp_path / str(stops)
        shutil.copytree(before, root, symlinks=True)
        try:
            board(root, WrittenDown(stop_after=stops)).install(bundles[1], passes)
            break
        except Killed:
            assert broken(root, {first, second}) is None
            board(root).install(bundles[1], passes)
            assert board(root).state().committed == board(root).current == second[0]
        stops += 1
    assert stops >= 15
    assert board(root).state() == State(second[0], first[0], 2, {}, "")
