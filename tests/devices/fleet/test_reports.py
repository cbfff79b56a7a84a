"""What an owner believes of the reports of a fleet, and what not."""

import json
import sys
from types import SimpleNamespace

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from edgeveil.devices.fleet.accepted import Accepted
from edgeveil.devices.fleet.reports import FAILING, REFUSED, SILENT, UNKNOWN, WELL, Memory, judged, read_folder
from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.signing.device_key import DeviceKey
from edgeveil.edge_runtime.signing.keys import public_key_line
from edgeveil.trainer.cli.main import main
from tests.support import bundles, network_receivers, programs
from tests.support.reporting.board_reports import NOW, document, report

pytestmark = pytest.mark.programs

ONE, TWO, STRANGER = (DeviceKey(bytes([number]) * 32) for number in (1, 2, 3))
DAY = 86400


class Owner:
    """Of the boards hall-1 and hall-2, whose keys are accepted; ``at`` is the time by the owner's clock."""

    def __init__(self, folder):
        self.folder, self.at = folder, NOW + 60
        self.accepted = Accepted(folder / "hall.devices.json", folder, {"hall-1": ONE.public, "hall-2": TWO.public})

    def look(self, **found):
        """The rows by the name of a board, in a process of its own each time."""
        memory = Memory.of(self.folder / "hall.toml")
        reports = {name.replace("_", "-"): data for name, data in found.items()}
        rows = judged(["hall-1", "hall-2"], reports, self.accepted, memory, silent_after_s=DAY, now=lambda: self.at)
        memory.keep()
        return {row.board: row for row in rows}

    def one(self, data):
        """The row of hall-1."""
        return self.look(hall_1=data)["hall-1"]


@pytest.fixture
def owner(tmp_path):
    return Owner(tmp_path)


def test_a_board_that_is_well(owner):
    row = owner.one(report(ONE))
    assert row.state == WELL
    for part in ("runs hall abababababab", "security version 3", "floor 3", "update: nothing-new", "active, ready"):
        assert part in row.said
    for part in ("48 C", "1200 MB free", "index since 3 days", "seen 2027-01-15T08:00:00Z, 0 hours ago"):
        assert part in row.said


@pytest.mark.parametrize(
    "wrong",
    [
        {"update": {"outcome": "trial-failed", "reason": "", "at_s": NOW}},
        {"update": {"outcome": "refused", "reason": "rolled-back", "at_s": NOW}},
        {"update": {"outcome": "failed", "reason": "", "at_s": NOW}},
        {"update": {"outcome": "begun", "reason": "", "at_s": NOW}},
        {"health": {**document()["health"], "service": "failed"}},
        {"health": {**document()["health"], "ready": False}},
    ],
)
def test_a_board_that_fails(owner, wrong):
    row = owner.one(report(ONE, **wrong))
    assert row.state == FAILING
    assert wrong.get("update", {}).get("reason", "") in row.said


def test_a_service_that_has_just_started_is_not_failing(owner):
    update, health = {"outcome": "installed", "reason": "", "at_s": NOW}, {**document()["health"], "ready": False}
    assert owner.one(report(ONE, update=update, health=health)).state == WELL


def test_a_report_with_a_wrong_signature_is_refused(owner):
    data = report(ONE)
    row = owner.one(data.replace(b'disk_free_mb\\":1200', b'disk_free_mb\\":9999'))
    assert (row.state, row.report) == (REFUSED, None)
    assert "signature" in row.said


def test_an_old_report_does_not_pass_for_a_new_one(owner):
    old = report(ONE, number=4, time_s=NOW)
    assert owner.one(old).state == WELL
    assert owner.one(report(ONE, number=9, time_s=NOW + 50)).state == WELL
    row = owner.one(old)
    assert row.state == REFUSED
    assert "Report 4 came after report 9" in row.said
    # Not even a fresh one with an old number: a card that was put back, or copied.
    assert owner.one(report(ONE, number=9, time_s=NOW + 55)).state == REFUSED
    assert owner.one(report(ONE, number=10, time_s=NOW + 55)).state == WELL


def test_the_same_report_again_and_again_grows_silent(owner):
    data = report(ONE)
    assert owner.one(data).state == WELL
    owner.at += DAY - 61
    assert owner.one(data).state == WELL
    owner.at += 120
    row = owner.one(data)
    assert row.state == SILENT
    assert row.said.startswith("Silent for 24 hours: last seen 2027-01-15T08:00:00Z.")
    owner.at += 3 * DAY
    assert "Silent for 4 days" in owner.look()["hall-1"].said


def test_a_board_whose_clock_is_not_set_or_ahead_is_seen_by_the_owners_clock(owner):
    for number, time_s in ((1, 12), (2, NOW + 400 * DAY)):
        data = report(ONE, number=number, time_s=time_s)
        assert owner.one(data).state == WELL
        owner.at += DAY + 1
        assert owner.one(data).state == SILENT


def test_a_clock_that_is_behind_does_not_make_a_board_silent(owner):
    owner.one(report(ONE, number=1))
    owner.at += 3600
    assert owner.one(report(ONE, number=2, time_s=NOW - 30 * DAY)).state == WELL


def test_one_that_never_reported(owner):
    row = owner.look()["hall-2"]
    assert (row.state, row.said) == (SILENT, "It never reported.")


def test_a_key_that_nobody_accepted_is_not_believed_and_not_remembered(owner):
    del owner.accepted.keys["hall-2"]
    row = owner.look(hall_2=report(STRANGER, board="hall-2", number=10**9))["hall-2"]
    assert (row.state, row.report) == (UNKNOWN, None)
    assert STRANGER.public in row.said
    assert STRANGER.public not in Memory.of(owner.folder / "hall.toml").last


def test_another_key_under_a_known_name(owner):
    row = owner.one(report(STRANGER))
    assert row.state == REFUSED
    assert f"The report of hall-1 is signed by the key {STRANGER.public}" in row.said
    assert "accept hall-1" in row.said


def test_a_board_in_the_place_of_another(owner):
    rows = owner.look(hall_1=report(TWO, board="hall-2"), hall_2=report(ONE, board="hall-2"))
    assert [row.state for row in rows.values()] == [REFUSED, REFUSED]
    assert "says that it is of another board" in rows["hall-1"].said
    assert "signed by the key of hall-1" in rows["hall-2"].said
    del owner.accepted.keys["hall-2"]
    assert owner.look(hall_2=report(ONE, board="hall-2"))["hall-2"].state == REFUSED


def test_a_name_that_is_not_in_the_file_is_shown_last(owner):
    rows = owner.look(hall_1=report(ONE), other=report(STRANGER, board="other"))
    assert list(rows) == ["hall-1", "hall-2", "other"]
    assert rows["other"].state == UNKNOWN


def test_a_folder_of_reports(tmp_path):
    (tmp_path / "hall-1.json").write_bytes(report(ONE))
    (tmp_path / "hall-2").write_bytes(b"x" * 10**6)
    (tmp_path / ".hidden").write_bytes(b"")
    found = read_folder(tmp_path)
    assert set(found) == {"hall-1", "hall-2"}
    assert len(found["hall-2"]) < 10**5
    with pytest.raises(BadInput, match="A folder of reports"):
        read_folder(tmp_path / "none")


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"looked": 1, "last": {"k": {"number": 1}}}'])
def test_a_memory_that_is_damaged(tmp_path, text):
    (tmp_path / "hall.reports.json").write_text(text)
    with pytest.raises(BadInput, match="Remove it"):
        Memory.of(tmp_path / "hall.toml")


# The commands


@pytest.fixture
def office(tmp_path, monkeypatch, capfd):
    """An owner's folder with ``hall.toml`` and keys; ``fleet`` runs a command and gives its code, stdout and stderr."""
    trust = tmp_path / "trust"
    trust.mkdir()
    (trust / "test.pub").write_text(public_key_line(bundles.trusted()))
    for name, key in (("signing", bundles.KEY), ("other", bundles.STRANGER)):
        (tmp_path / f"{name}.key").touch(mode=0o600)
        (tmp_path / f"{name}.key").write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        (tmp_path / f"{name}.pub").write_text(public_key_line(bundles.trusted(key)))
    text = '[all]\nprofile = "workstation"\ntrust = "trust"\n'
    for name in ("hall-1", "hall-2"):
        text += f'[[board]]\nname = "{name}"\ntarget = "ssh://pi@{name}"\n'
    (tmp_path / "hall.toml").write_text(text)

    def fleet(*words):
        monkeypatch.setattr(sys, "argv", ["edgeveil", "fleet", str(tmp_path / "hall.toml"), *map(str, words)])
        with pytest.raises(SystemExit) as ended:
            main()
        out = capfd.readouterr()
        return ended.value.code or 0, out.out, out.err

    return SimpleNamespace(folder=tmp_path, fleet=fleet)


def test_from_the_first_report_to_a_fleet_that_is_well(office):
    reports = office.folder / "reports"
    reports.mkdir()
    for name, key in (("hall-1", ONE), ("hall-2", TWO)):
        (reports / f"{name}.json").write_bytes(report(key, board=name, time_s=0))
    code, out, err = office.fleet("status", "--reports", reports)
    assert code == 3
    assert f"hall-1: not accepted: not yet accepted: its key is {ONE.public}" in out
    assert "2 of 2 boards are not well: hall-1, hall-2" in err
    for name, key in (("hall-1", ONE), ("hall-2", TWO)):
        assert office.fleet("accept", name, key.public)[:2] == (0, f"{name}: accepted the device key {key.public}\n")
    assert office.fleet("status", "--reports", reports)[0] == 0
    code, out, _ = office.fleet("status", "--reports", reports, "--json")
    assert [row["state"] for row in json.loads(out)["boards"]] == ["well", "well"]
    (reports / "hall-2.json").unlink()
    code, out, err = office.fleet("status", "--reports", reports)
    assert (code, "hall-2: silent: Silent for 0 hours" in out) == (3, True)
    assert err.endswith("1 of 2 boards are not well: hall-2.\n")


def test_reports_from_a_real_broker(office):
    programs.need("mosquitto")
    import paho.mqtt.publish

    broker = network_receivers.Broker(office.folder)
    place = f"mqtt://127.0.0.1:{broker.port}/fleet"
    office.fleet("accept", "hall-1", ONE.public)
    for name, data in (("hall-1", report(ONE, time_s=0)), ("\u202ehall", b"x")):
        paho.mqtt.publish.single(f"fleet/{name}", data, qos=1, retain=True, hostname="127.0.0.1", port=broker.port)
    code, out, _ = office.fleet("status", "--reports", place)
    assert (code, "hall-1: well" in out, "hall-2: silent: It never reported." in out) == (3, True, True)
    assert "\u202e" not in out
    broker.kill()
    code, _, err = office.fleet("status", "--reports", place)
    assert (code, "cannot be reached" in err) == (4, True)


def test_a_countersigned_file_stays_so(office):
    signed = ("--key", office.folder / "signing.key")
    assert office.fleet("accept", "hall-1", ONE.public, *signed)[0] == 0
    path = office.folder / "hall.devices.json"
    before = path.read_bytes()
    assert b'"signature"' in before
    code, _, err = office.fleet("accept", "hall-2", TWO.public)
    assert (code, "--key" in err, path.read_bytes() == before) == (2, True, True)
    # A key that may sign nothing of this fleet's, and a key that was exchanged in the file.
    code, _, err = office.fleet("accept", "hall-2", TWO.public, "--key", office.folder / "other.key")
    assert (code, path.read_bytes() == before) == (2, True)
    path.write_bytes(before.replace(ONE.public.encode(), STRANGER.public.encode()))
    code, _, err = office.fleet("status", "--reports", office.folder)
    assert (code, "not countersigned" in err) == (2, True)
    path.write_bytes(before)
    assert office.fleet("accept", "hall-2", TWO.public, *signed)[0] == 0


@pytest.mark.parametrize("key", ["ab", "x" * 64, "00" * 32, "AB" * 32])
def test_what_is_no_key(office, key):
    code, _, err = office.fleet("accept", "hall-1", key)
    assert (code, err.count("\n")) == (2, 1)
    assert not (office.folder / "hall.devices.json").exists()


def test_two_boards_have_two_keys(office):
    assert office.fleet("accept", "hall-1", ONE.public)[0] == 0
    code, _, err = office.fleet("accept", "hall-2", ONE.public)
    assert (code, "is accepted for hall-1" in err) == (2, True)
    assert office.fleet("accept", "hall-1", STRANGER.public)[0] == 0  # its card was written anew
    assert office.fleet("accept", "hall-3", TWO.public)[0] == 2


@pytest.mark.parametrize("text", ["{", "[]", '{"schema": 1}', '{"schema": 1, "devices": {"hall-1": "x"}}'])
def test_a_file_of_keys_that_is_damaged(office, text):
    (office.folder / "hall.devices.json").write_text(text)
    code, _, err = office.fleet("status", "--reports", office.folder)
    assert (code, err.count("\n")) == (2, 1)


def test_the_key_is_read_over_ssh(hall, edgeveil, tmp_path):
    assert edgeveil("flash", hall)[0] == 0
    assert edgeveil("accept", "one")[0] == 0
    keys = json.loads((tmp_path / "hall.devices.json").read_text())["devices"]
    seed = bytes.fromhex(json.loads((tmp_path / "one/opt/device.json").read_text())["seed"])
    assert keys == {"one": DeviceKey(seed).public}
