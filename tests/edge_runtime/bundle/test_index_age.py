"""The age of an update index: by the clock where it was set, and by the time that the board was up.

A freeze from the first day on is seen, a clock that jumps back makes nothing fresh, one that says 1970 ends nothing.
"""

import json
from pathlib import Path

import pytest

from edgeveil.edge_runtime.bundle import index_seen as seen_file
from edgeveil.edge_runtime.bundle.index_seen import COPY_FILE, SEEN_FILE, Seen, count_up, read_seen, write_seen
from edgeveil.edge_runtime.bundle.trust_file import Trust
from edgeveil.edge_runtime.bundle.trust_store import open_trust
from edgeveil.edge_runtime.cli.main import main
from edgeveil.edge_runtime.errors import BadInput, BundleRefused, PrivacyStop
from edgeveil.edge_runtime.outside.trust_watch import EVERY_S, TrustWatch
from edgeveil.edge_runtime.releases.index import Index, check_index, read_index, record_seen, update
from edgeveil.edge_runtime.releases.store import Releases
from edgeveil.edge_runtime.signing.roles import Role
from tests.edge_runtime.bundle.signed_trust import device, envelope, public, trust_file
from tests.support import bundles

ENTRY = {"name": "hall", "manifest_sha256": "a" * 64, "sha256": "b" * 64, "size": 10, "security_version": 1}
ENTRY["url"] = "hall.veil"
DAY = 86400
NOW = 1_800_000_000  # 2027


class Board:
    """A board's clocks: what it says the time is, which start this is, and for how long it has been up."""

    def __init__(self, root, patch):
        self.root, self.wall, self.boot, self.up, self.synchronised = str(root), NOW, "one", 100, True
        patch.setattr(seen_file.time, "time", lambda: float(self.wall))
        patch.setattr(seen_file, "clock_synchronised", lambda: self.synchronised)
        patch.setattr(seen_file, "uptime", lambda: (self.boot, self.up))
        patch.setattr("edgeveil.edge_runtime.releases.index.uptime", lambda: (self.boot, self.up))

    def days(self, count, *, wall=True):
        self.up += count * DAY
        self.wall += count * DAY if wall else 0

    def restart(self, up=0):
        self.boot, self.up = self.boot + "+", up

    @property
    def age(self):
        return read_seen(self.root).age_s() / DAY


@pytest.fixture
def board(tmp_path, monkeypatch):
    return Board(tmp_path, monkeypatch)


def index(version):
    return Index("hall", version, [], "", "ab" * 32)


def test_a_board_that_never_saw_an_index_grows_old_from_its_first_flash_on(board):
    count_up(board.root)
    board.days(9)
    assert board.age == 9
    assert read_seen(board.root).name == ""


@pytest.mark.parametrize("to", [0, NOW - 400 * DAY], ids=["1970", "a year back"])
def test_a_clock_that_jumps_back_makes_nothing_fresh(board, to):
    record_seen(board.root, index(3), None)
    board.days(4)
    board.wall = to
    assert board.age == 4
    board.days(5)
    assert board.age == 9


@pytest.mark.parametrize("synchronised", [False, None], ids=["not", "unknown"])
@pytest.mark.parametrize("at_first", [0, NOW - 600 * DAY, NOW + 4000 * DAY], ids=["1970", "of the image", "the future"])
def test_a_clock_that_was_wrong_when_it_came_ends_nothing(board, at_first, synchronised):
    """As that of a board without a battery, which begins with the time of its image until a server is reached."""
    board.wall, board.synchronised = at_first, synchronised
    record_seen(board.root, index(3), None)
    board.wall, board.synchronised = NOW, True
    assert board.age == 0
    board.days(8)
    assert board.age == 8


def test_time_without_power_counts_by_the_clock_alone(board):
    record_seen(board.root, index(3), None)
    board.wall += 30 * DAY
    board.restart()
    assert board.age == 30


def test_a_version_that_came_before_the_clock_was_set_counts_by_it_from_then_on(board):
    board.synchronised = False
    record_seen(board.root, index(3), None)
    board.days(2)
    board.synchronised = True
    count_up(board.root)
    board.wall += 30 * DAY
    board.restart()
    assert board.age == 32, "30 days without power"


@pytest.mark.parametrize("synchronised", [False, None], ids=["not", "unknown"])
def test_a_clock_that_is_wrong_after_a_start_has_a_day_to_be_set(board, synchronised):
    record_seen(board.root, index(3), None)
    board.restart()
    board.wall, board.synchronised = NOW + 4000 * DAY, synchronised
    assert board.age < 1
    board.days(0.9, wall=False)
    assert board.age == 0.9
    board.days(0.1, wall=False)
    assert board.age == 4000, "one that is never set counts as it is: it may be right"


def test_each_start_adds_up_and_what_was_not_counted_is_lost(board):
    board.wall = 0
    count_up(board.root)
    for _ in range(5):
        board.days(1, wall=False)
        count_up(board.root)  # an update, which found nothing
        board.days(1 / 8, wall=False)
        board.restart(up=60)
        count_up(board.root)  # recover
    assert 5 <= board.age <= 5.01


def test_the_same_version_again_is_not_newer_and_another_is(board):
    record_seen(board.root, index(3), None)
    board.days(6)
    record_seen(board.root, index(3), read_seen(board.root))
    assert board.age == 6
    record_seen(board.root, index(4), read_seen(board.root))
    assert board.age == 0


def test_the_higher_of_two_places_holds(board):
    count_up(board.root)
    board.days(6)
    count_up(board.root)
    whole = read_seen(board.root)
    for name in (SEEN_FILE, COPY_FILE):
        path = Path(board.root, name)
        kept = path.read_bytes()
        path.write_bytes(kept.replace(b'"up_s":518400', b'"up_s":0'))
        assert read_seen(board.root) == whole
        path.unlink()
        assert read_seen(board.root) == whole
        path.write_bytes(kept)


def test_a_record_of_before_is_counted_from_now_on(board):
    """A board that has been up for a year is not a year old at once."""
    old = Seen("hall", "", 3)._asdict()
    for name in ("up_s", "boot", "counted_s", "keys", "trust_version"):
        del old[name]
    board.up = 365 * DAY
    Path(board.root, SEEN_FILE).write_text(json.dumps({**old, "schema": 2}))
    assert count_up(board.root).version == 3
    board.days(2, wall=False)
    assert board.age == 2


def test_a_board_that_only_counts_follows_the_first_index_as_before(board):
    seen = count_up(board.root)
    check_index(index(1), seen, Trust([bundles.trusted()]))
    record_seen(board.root, index(1), seen)
    assert read_seen(board.root)[:3] == ("hall", "", 1)
    assert read_seen(board.root).others == {}


def test_the_real_clock_of_this_machine_goes_on():
    boot, first = seen_file.uptime()
    assert len(boot) == 36
    assert 0 <= seen_file.uptime()[1] - first < 60


@pytest.mark.parametrize("clock", ["right", "1970", "back"])
def test_a_service_that_is_frozen_from_the_first_day_on_ends(tmp_path, monkeypatch, clock):
    folder = device(tmp_path / "opt" / "trust", trust_file(1, index_stale_days=7))
    made = bundles.make_bundle(tmp_path / "b")
    releases = Releases(str(folder.parent), lambda floor: open_trust(folder, floor=floor))
    releases.install(made.path.read_bytes(), lambda *_: None)
    board = Board(folder.parent, monkeypatch)
    board.wall = 0 if clock == "1970" else NOW
    assert main(["recover", "--root", board.root]) == 0
    now = [0.0]
    bundle = releases.read(releases.current)
    watch = TrustWatch(str(folder), lambda *_, **__: None, lambda: now[0])
    for day in range(1, 9):
        board.days(1, wall=clock == "right")
        board.wall -= DAY if clock == "back" else 0
        now[0] += EVERY_S
        if day <= 7:
            watch.check(bundle)
        else:
            with pytest.raises(PrivacyStop, match=r"No update index came to this board for 8 days.* allows 7"):
                watch.check(bundle)


def test_what_is_written_is_read(board):
    seen = Seen("hall", "ward", 3, "ab" * 32, NOW, NOW, {"attic": 5}, 7, "one", 9)
    write_seen(board.root, seen)
    assert read_seen(board.root) == seen


def test_a_stolen_release_key_that_was_taken_away_binds_no_version_to_come(board):
    """Its thief signed the largest version that there is; TUF drops what was seen where a key of the role goes."""
    thief, new = public("release"), public("release-2")
    trusts = [
        Trust([bundles.trusted()], version=version, roles={"release": Role(keys)}, revoked=frozenset(revoked))
        for version, keys, revoked in (
            (1, (thief,), ()),
            (2, (thief, new), ()),  # a key more changes nothing
            (3, (new,), ()),
            (4, (thief, new), (thief.key,)),
        )
    ]

    def take(version, trust, signer):
        seen = read_seen(board.root)
        payload = {"schema": 2, "name": "hall", "audience": "", "version": version, "releases": [dict(ENTRY)]}
        found = read_index(envelope("index", payload, [signer]), trust)
        check_index(found, seen, trust)
        record_seen(board.root, found, seen)
        assert read_seen(board.root).version == version

    take(7, trusts[0], "release")
    take(2**31 - 1, trusts[0], "release")
    for trust, signer in ((trusts[0], "release"), (trusts[1], "release-2")):
        with pytest.raises(BundleRefused, match="this board has seen 2147483647 already"):
            take(8, trust, signer)
    with pytest.raises(BundleRefused, match="of the product"):
        check_index(index(8)._replace(name="attic", keys=(new.key,)), read_seen(board.root), trusts[2])  # still pinned
    kept = Path(board.root, COPY_FILE).read_bytes()
    take(8, trusts[2], "release-2")
    Path(board.root, COPY_FILE).write_bytes(kept)  # the power went between the two files
    assert read_seen(board.root).version == 8
    with pytest.raises(BundleRefused, match="this board has seen 8 already"):
        take(7, trusts[2], "release-2")
    take(9, trusts[3], "release-2")


def test_a_record_of_an_older_runtime_gets_the_keys_of_today_at_its_next_update(tmp_path):
    """So that a key that is taken away later binds nothing there either."""
    folder = device(tmp_path / "opt/trust", trust_file(1))
    old = dict(Seen("hall", "", 3)._asdict(), schema=3)
    for name in ("keys", "trust_version"):
        del old[name]
    (folder.parent / SEEN_FILE).write_text(json.dumps(old))
    assert read_seen(str(folder.parent)).version == 3
    with pytest.raises(BadInput):
        update(str(folder.parent), f"dir:{tmp_path}", open_trust(folder), lambda _: True, committed=None)
    seen = read_seen(str(folder.parent))
    assert (seen.version, seen.trust_version, seen.keys) == (3, 1, (bundles.trusted().key,))
