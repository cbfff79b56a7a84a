"""Settings that come as bundles do: signed, for one board, tried, and taken back. At any moment they are whole."""

import base64
import io
import json
import shutil

import pytest

from edgeveil.edge_runtime.bundle.trust_file import RELEASE, RUNTIME, SETTINGS, Trust
from edgeveil.edge_runtime.errors import BadInput, BundleRefused, DeviceFailed
from edgeveil.edge_runtime.releases.settings import (
    FIXED,
    MOST_FAILURES,
    BoardSettings,
    State,
    TakenBack,
    board_key,
    shown_key,
)
from edgeveil.edge_runtime.signing.envelope import message, wrap
from edgeveil.edge_runtime.signing.roles import Role
from edgeveil.edge_runtime.signing.sealed import Sealer
from edgeveil.edge_runtime.util import strict_json
from tests.edge_runtime.releases.test_store import after_every_cut, written_down
from tests.support.boards.power_cut import Killed, WrittenDown
from tests.support.bundles import KEY, STRANGER, trusted

FLASHED = {"bundle": "/opt/b.veil", "trust": "/opt/trust", "source": "camera:0?fps=5", "sink": ["tcp://10.0.0.1:9"]}
NEW = {"sink": ["mqtts://broker/hall?password_file=@FILES@/password&ca=@FILES@/ca.pem"], "fps": 5}
SECRETS = {"password": b"tr0ub4dor\n", "ca.pem": b"-----BEGIN CERTIFICATE-----\n"}


def owners(**roles):
    """The trust of a board: KEY is a root key, and STRANGER may sign bundles and the index."""
    return Trust([trusted(STRANGER)], roles={"root": Role((trusted(KEY),)), **roles})


def sealed(board, content):
    file = io.BytesIO()
    sealer = Sealer(bytes.fromhex(board), file.write)
    sealer.add(content)
    sealer.close()
    return base64.b64encode(file.getvalue()).decode()


def signed(root, number=1, settings=NEW, files=SECRETS, key=KEY, **changes):
    """A settings file for the board at ``root``, as the workstation writes it."""
    board = board_key(str(root / "opt"))
    coded = {name: base64.b64encode(data).decode() for name, data in files.items()}
    inner = strict_json.dumps({"schema": 1, "settings": settings, "files": coded})
    payload = {"schema": 1, "number": number, "board": board, "sealed": sealed(board, inner), **changes}
    data = strict_json.dumps(payload)
    return wrap(data, trusted(key).key, key.sign(message("settings", data)))


class Board:
    """A folder with ``opt`` and ``etc``; ``starts`` are the settings that the service was started with, and ``ill``
    a word of settings that it does not run with."""

    def __init__(self, root, disk=None, ill="refused"):
        self.root, self.ill, self.starts = root, ill, []
        self.path = root / "etc/edge.json"
        self.settings = BoardSettings(str(root / "opt"), str(self.path), disk)

    def start(self):
        self.starts.append(self.now())
        return "it is not ready" if self.ill in json.dumps(self.starts[-1]) else None

    def now(self):
        return json.loads(self.path.read_text())

    def take(self, data, trust=None):
        return self.settings.take(data, trust or owners(), self.start)


@pytest.fixture
def tmp_path(in_memory):
    return in_memory


@pytest.fixture
def board(tmp_path):
    root = tmp_path / "board"
    (root / "opt").mkdir(parents=True)
    (root / "etc").mkdir()
    (root / "etc/edge.json").write_text(json.dumps(FLASHED))
    (root / "etc/edge.json").chmod(0o640)
    board_key(str(root / "opt"))
    return Board(root)


def test_new_settings_are_in_place_with_their_files_and_the_rest_is_as_it_was(board):
    assert board.take(signed(board.root)) is True
    now, place = board.now(), board.root / "opt/settings/1"
    assert now == {**FLASHED, "sink": [NEW["sink"][0].replace("@FILES@", str(place))], "fps": 5}
    assert {name: (place / name).read_bytes() for name in SECRETS} == SECRETS
    assert {(place / name).stat().st_mode & 0o777 for name in (*SECRETS, "edge.json")} == {0o640}
    assert board.starts == [now]
    assert board.settings.state() == State(1, 1)
    assert board.take(signed(board.root)) is False, "the same number is not tried again"
    assert len(board.starts) == 1


def test_what_is_left_out_has_its_default_again(board):
    board.take(signed(board.root))
    board.take(signed(board.root, 2, {"sink": ["tcp://10.0.0.2:9"]}, {}))
    assert board.now() == {**FLASHED, "sink": ["tcp://10.0.0.2:9"]}
    board.take(signed(board.root, 3, {"sink": ["tcp://10.0.0.3:9"]}, {}))
    assert sorted(path.name for path in (board.root / "opt/settings").iterdir() if path.is_dir()) == ["2", "3"]


def test_the_secret_is_in_no_byte_of_what_a_server_has(board):
    data = signed(board.root)
    assert b"tr0ub4dor" not in data
    assert base64.b64encode(SECRETS["password"]).strip(b"=") not in data
    assert (board.root / "opt/board.key").stat().st_mode & 0o777 == 0o600


def test_a_key_that_signs_bundles_and_the_index_alone_redirects_no_sink(board):
    refused(board, signed(board.root, key=STRANGER), "untrusted-key")


def test_a_role_of_its_own_signs_settings_in_place_of_the_root(board):
    trust = owners(**{SETTINGS: Role((trusted(STRANGER),))})
    refused(board, signed(board.root, key=KEY), "untrusted-key", trust)
    assert board.take(signed(board.root, key=STRANGER), trust) is True
    revoked = Trust([], roles={SETTINGS: Role((trusted(STRANGER),))}, revoked=frozenset([trusted(STRANGER).key]))
    refused(board, signed(board.root, 2, key=STRANGER), "untrusted-key", revoked)


def test_other_roles_do_not_count(board):
    trust = Trust([trusted(KEY)], roles={name: Role((trusted(KEY),)) for name in (RELEASE, RUNTIME)})
    refused(board, signed(board.root), "untrusted-key", trust)


def test_those_of_another_board_are_refused(board, tmp_path):
    (tmp_path / "other/opt").mkdir(parents=True)
    refused(board, signed(tmp_path / "other"), "other-board")
    other = board_key(str(tmp_path / "other/opt"))
    inner = strict_json.dumps({"schema": 1, "settings": NEW, "files": {}})
    refused(board, signed(board.root, sealed=sealed(other, inner)), "not-readable")


def test_an_older_number_is_refused_and_so_is_one_that_only_its_folder_remembers(board):
    board.take(signed(board.root, 5))
    refused(board, signed(board.root, 4), "rolled-back")
    (board.root / "opt/settings/9").mkdir()
    refused(board, signed(board.root, 8), "rolled-back")


def test_a_settings_file_that_was_cut_short_or_changed_is_refused_at_every_byte(board):
    data = signed(board.root)
    for size in range(0, len(data), 97):
        with pytest.raises(BundleRefused):
            board.take(data[:size])
    for at in range(0, len(data), 61):
        with pytest.raises(BundleRefused):
            board.take(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
    assert (board.now(), board.starts) == (FLASHED, [])


def test_a_signature_of_another_kind_of_text_does_not_count(board):
    payload = json.loads(signed(board.root))["payload"].encode()
    for kind in ("index", "trust", "policy", "runtime"):
        refused(board, wrap(payload, trusted(KEY).key, KEY.sign(message(kind, payload))), "bad-signature")


def test_a_name_outside_of_the_folder_is_no_files_name(board):
    for name in ("../x", "/x", "edge.json", "", "a/b"):
        refused(board, signed(board.root, settings={"sink": ["tcp://h:1"]}, files={name: b"x"}), "not-readable")


@pytest.mark.parametrize("name", FIXED)
def test_what_may_not_change_does_not(board, name):
    other = {"source": "camera:1?fps=5", "device": "edgetpu", "as-root": True}.get(name, "/elsewhere")
    with pytest.raises(BadInput, match=r"flag|without another"):
        board.take(signed(board.root, settings={"sink": ["tcp://h:1"], name: other}, files={}))
    assert (board.now(), board.starts) == (FLASHED, [])


def test_a_sources_options_may_change(board):
    board.take(signed(board.root, settings={"sink": ["tcp://h:1"], "source": "camera:0?fps=9"}, files={}))
    assert board.now()["source"] == "camera:0?fps=9"


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"sink": ["tcp//h:1"]}, "expected a sink"),
        ({"sink": ["tcp://h:1"], "fsp": 1}, "unknown"),
        ({"sink": ["tcp://h:1"], "fps": 1e9}, "expected 0.0001 to 1000"),
        ({"fps": 1}, "--sink"),
        ({"sink": ["mqtts://h/x?password_file=@FILES@/pw"]}, "the settings name pw, and there come none"),
        ({"sink": ["mqtts://h/x?password_file=/nowhere/pw"]}, "/nowhere/pw, which is not on this board"),
    ],
)
def test_settings_with_which_the_service_would_not_begin_are_refused_before_anything_changes(board, settings, said):
    before = sorted(board.root.rglob("*"))
    data = signed(board.root, settings=settings, files={})
    before = sorted(board.root.rglob("*"))
    with pytest.raises(BadInput, match=said):
        board.take(data)
    assert (sorted(board.root.rglob("*")), board.now()) == (before, FLASHED)


def test_a_file_that_no_setting_names_is_refused(board):
    with pytest.raises(BadInput, match="name none, and there come password"):
        board.take(signed(board.root, settings={"sink": ["tcp://h:1"]}, files={"password": b"x"}))


def test_the_service_that_is_not_ready_gets_its_settings_back_and_the_number_is_remembered(board):
    bad = signed(board.root, 1, {"sink": ["tcp://refused:1"]}, {})
    for tried in range(1, MOST_FAILURES + 1):
        with pytest.raises(TakenBack, match=r"1 were taken back: it is not ready. It runs again with those before"):
            board.take(bad)
        assert (board.now(), board.path.stat().st_mode & 0o777) == (FLASHED, 0o640)
        assert board.settings.state() == State(0, 1, tried, "it is not ready")
    shown = board.settings.document()
    assert shown == {
        "number": 0,
        "highest": 1,
        "failures": MOST_FAILURES,
        "reason": "it is not ready",
        "key": shown_key(str(board.root / "opt")),
    }
    refused(board, bad, "failed-before")
    board.take(signed(board.root, 2))
    with pytest.raises(TakenBack):
        board.take(signed(board.root, 3, {"sink": ["tcp://refused:1"]}, {}))
    assert board.settings.current == 2
    assert board.settings.state() == State(2, 3, 1, "it is not ready")


def test_a_flash_after_them_stands_and_is_what_comes_back(board):
    board.take(signed(board.root))
    board.path.unlink()
    later = {**FLASHED, "sink": ["tcp://10.0.0.7:9"]}
    board.path.write_text(json.dumps(later))
    assert board.take(signed(board.root)) is False
    assert board.settings.document()["number"] == 0
    with pytest.raises(TakenBack):
        board.take(signed(board.root, 2, {"sink": ["tcp://refused:1"]}, {}))
    assert board.now() == later


def test_a_lost_state_is_no_beginning(board):
    board.take(signed(board.root))
    (board.root / "opt/settings/state.json").unlink()
    with pytest.raises(DeviceFailed, match="missing or damaged"):
        board.take(signed(board.root, 2))
    (board.root / "opt/settings/state.json").write_text("{")
    with pytest.raises(DeviceFailed, match="missing or damaged"):
        board.settings.recover()


def refused(board, data, reason, trust=None):
    before = board.now(), list(board.starts)
    with pytest.raises(BundleRefused) as caught:
        board.take(data, trust)
    assert (caught.value.reason, (board.now(), list(board.starts))) == (reason, before)


# Power cuts ---------------------------------------------------------------------------------------------------------


def at_place(place, before):
    """The board of a tree that was written out elsewhere: its link leads there too."""
    path = place / "etc/edge.json"
    if path.is_symlink():
        leads = str(path.readlink()).replace(str(before), str(place))
        path.unlink()
        path.symlink_to(leads)
    return Board(place, WrittenDown())


def whole(place, before, allowed):
    """What is wrong with a board that comes up again, or None."""
    board = at_place(place, before)
    try:
        board.settings.recover()
        now, current = board.now(), board.settings.current
        place = board.root / f"opt/settings/{current}"
        files = {name: (place / name).read_bytes() for name in SECRETS} if current else {}
    except (DeviceFailed, OSError, ValueError) as error:
        return str(error)
    if current not in allowed:
        return f"number {current}"
    if current != board.settings.state().committed:
        return "on trial all the same"
    good = files == SECRETS and "mqtts" in now["sink"][0] if current else now == FLASHED
    return None if good else f"not whole: {now}"


def written(board, copy, number=1, ill="refused"):
    """The log of taking settings on a copy of ``board``."""
    data = signed(board.root, number)

    def take(root, _data, _trial, disk):
        other = at_place(root, board.root)
        other.settings, other.ill = BoardSettings(str(root / "opt"), str(other.path), disk), ill
        try:
            other.take(data)
        except TakenBack:
            assert ill == "mqtts"

    return written_down(board.root, copy, take, None, None)


def after_cuts(board, log, place, old, new, *, states=12):
    """What is wrong after each cut."""
    for over, tree in after_every_cut(board.root, log, place, states=states):
        yield whole(tree, board.root, {new} if over else {old, new})


@pytest.mark.parametrize("ill", ["refused", "mqtts"])
@pytest.mark.parametrize("second", [False, True])
def test_after_any_power_cut_the_settings_are_whole_old_or_whole_new(tmp_path, board, ill, second):
    if second:
        board.take(signed(board.root))
    old, number = (1, 2) if second else (0, 1)
    log = written(board, tmp_path / "copy", number, ill)
    found = list(after_cuts(board, log, tmp_path / "after", old, number if ill == "refused" else old))
    assert len(found) >= 50
    assert set(found) == {None}


def test_every_single_fsync_is_needed(tmp_path, board):
    log = written(board, tmp_path / "copy")
    syncs = [number for number, one in enumerate(log) if one[0] in ("sync", "sync_folder")]
    unneeded = []
    for number in syncs:
        less = log[:number] + log[number + 1 :]
        if not any(after_cuts(board, less, tmp_path / "after", 0, 1, states=4)):
            unneeded.append(log[number])
    assert unneeded == []


@pytest.mark.nightly  # by day every power cut, above
def test_a_process_that_is_killed_anywhere_leaves_a_board_that_goes_on(tmp_path, board):
    data, stops = signed(board.root), 0
    while True:
        root = tmp_path / str(stops)
        shutil.copytree(board.root, root, symlinks=True)
        other = Board(root, WrittenDown(stop_after=stops))
        try:
            other.take(data)
            break
        except Killed:
            assert whole(root, root, {0, 1}) is None
            again = Board(root)
            assert again.take(data) is True or again.settings.state().committed == 1
            assert again.settings.current == 1
        stops += 1
    assert stops >= 15


def test_what_was_interrupted_counts_as_a_failure_and_is_tried_again(tmp_path, board):
    def pulls_the_plug():
        raise Killed

    data = signed(board.root)
    for tried in range(1, MOST_FAILURES + 1):
        with pytest.raises(Killed):
            board.settings.take(data, owners(), pulls_the_plug)
        assert board.settings.current == 1
        assert "was on trial when the power failed" in board.settings.recover()
        assert (board.now(), board.settings.state()) == (FLASHED, State(0, 1, tried, "it was interrupted on trial"))
    refused(board, data, "failed-before")
