"""Two services on one board: nothing of one is the other's, whatever is read, written, started or removed."""

import json

import pytest

from edgeveil.devices import profiles
from edgeveil.devices.agents import gather_facts
from edgeveil.devices.flashing import service_files
from edgeveil.devices.flashing.board import Board
from edgeveil.devices.flashing.connection import Connection
from edgeveil.devices.flashing.flash import flash_target
from edgeveil.devices.flashing.plan import plan
from edgeveil.devices.flashing.records import BundleFacts, Facts, OnBoard, TrustFacts, Wanted, pages_at
from edgeveil.devices.flashing.steps import MakeLedger, Plan, StartService, StopService, WriteService, execute
from edgeveil.edge_runtime import config, paths
from edgeveil.edge_runtime.cli import main
from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.releases import runtimes
from tests.support import bundles
from tests.support.boards.owners import Recorded

FIRST, HALL = "/opt/edgeveil", "/opt/edgeveil-hall"
PI = profiles.load("raspberry-pi-cpu")
SINK, PLACE = "mqtts://broker/edgeveil/frames", "https://updates.example/edgeveil/all"
WANTED = Wanted("rtsps://who:pw@camera.example/x", (SINK,), update_from=PLACE)
THERE = OnBoard("edgeveil", FIRST, "camera:0", "")


def made(root, services=()):
    facts = Facts("aarch64", "3.11.2", 10**10, False, True, True, services=services)
    return service_files.for_board(root, PI.at(root), WANTED, facts, "cpu")


def test_no_file_user_or_folder_of_one_is_the_others():
    first, hall = made(FIRST), made(HALL, (THERE,))
    assert len(first) == len(hall) == 9
    assert set(first) & set(hall) == {service_files.WATCHDOG}, "of the board, not of a service"
    for path, data in hall.items():
        if path.endswith((".service", ".timer")):
            text = data.decode().replace(PLACE, "").replace("edgeveil-edge.pyz", "")
            assert text.count("edgeveil") == text.count("edgeveil-hall"), path
            assert "@" not in text.replace("@clock", "").replace(" @", ""), path
    settings = json.loads(hall["/etc/edgeveil-hall/edge.json"])
    assert settings["sink"] == [SINK], "a user's own words are left alone"
    assert PLACE in hall[service_files.UNIT_FOLDER + "edgeveil-hall-update.service"].decode()
    assert (settings["bundle"], settings["trust"]) == (f"{HALL}/current/bundle.veil", f"{HALL}/trust")
    assert settings["ledger"] == "/var/lib/edgeveil-hall/ledger"
    assert (settings["health"], settings["frames-at"]) == ("127.0.0.1:9465", "/run/edgeveil-hall-camera")
    assert "health" not in json.loads(first[service_files.CONFIG])
    config.merged({}, {name: config.check(name, value, name) for name, value in settings.items()})
    owners = [PI.at(root).service for root in (FIRST, HALL)]
    users = [set(service_files.user_commands(owner, files)) for owner, files in zip(owners, (first, hall), strict=True)]
    assert users == [
        {"edgeveil", "edgeveil-inside", "edgeveil-camera"},
        {"edgeveil-hall", "edgeveil-hall-inside", "edgeveil-hall-camera"},
    ]
    assert set(service_files.groups(owners[1])) <= set(hall)


def test_the_commands_of_its_units_are_understood():
    for name, word in (("", "run"), ("-inside", "inside"), ("-camera", "camera")):
        text = made(HALL)[f"{service_files.UNIT_FOLDER}edgeveil-hall{name}.service"].decode()
        (line,) = [one for one in text.splitlines() if one.startswith("ExecStart=")]
        arguments = main._parser().parse_args(line.split()[2:])
        assert (arguments.command, arguments.config.rpartition("/")[0]) == (word, "/etc/edgeveil-hall")


def test_a_flash_of_one_starts_stops_and_writes_nothing_of_the_other():
    line, owner = Recorded(**{"id -u ": 1}), PI.at(HALL).service
    own = service_files.files(HALL, "camera:1", ["none"], PI.at(HALL))
    steps = (StopService(), WriteService(own, owner), MakeLedger(owner), StartService())
    execute(Plan(steps, "numpy", "numpy"), Board(line, root=HALL))
    words = [word for one in line.ran for word in one.split() if "edgeveil" in word and "/home" not in word]
    others = {word for word in words if "edgeveil-hall" not in word and "incoming" not in word}
    assert others == {service_files.WATCHDOG}
    assert "systemctl stop edgeveil-hall-inside.service edgeveil-hall.service" in line.ran
    assert any(one.endswith("/var/lib/edgeveil-hall/ledger edgeveil-hall") for one in line.ran)
    assert "rm -f /etc/edgeveil-hall/camera.json" in str(line.ran)


@pytest.mark.parametrize("name", ["edgeveil", "edgeveil-hall", "edgeveil-inside", "edgeveil-Hall", "x", "edgeveil-a-b"])
def test_the_probe_and_the_runtime_agree_on_the_name_of_a_folder(name):
    for root in (f"/opt/{name}", f"/srv/{name}/"):
        assert paths.service_of(root) == gather_facts._service(root)
    assert paths.service_of(f"/opt/{name}") == (name if name == "edgeveil-hall" else "edgeveil")
    for path in (*gather_facts.SERVICE_FILES, paths.LEDGER):
        kept = "watchdog" in path
        assert gather_facts._named(path, "edgeveil-hall") == (path if kept else paths.named(path, "edgeveil-hall"))


def test_the_probe_finds_every_service_of_a_board(tmp_path, monkeypatch):
    monkeypatch.setattr(gather_facts, "UNITS", str(tmp_path))
    monkeypatch.setattr(gather_facts, "SETTINGS", f"{tmp_path}/edgeveil/edge.json")
    for root, source in ((FIRST, "camera:0"), (HALL, "camera:1")):
        own = service_files.files(root, source, ["none"], PI.at(root), pages=pages_at(root, (THERE,)))
        for path, data in own.items():
            name = path.rpartition("/")[2]
            place = tmp_path / (name if path.startswith(service_files.UNIT_FOLDER) else path.removeprefix("/etc/"))
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(data)
    (tmp_path / "edgeveil/ledger").touch()
    # The folder of settings follows the name of the service, in the middle of a path.
    monkeypatch.setattr(gather_facts, "_named", lambda path, service: f"{tmp_path}/{service}/{path.split('/')[-1]}")
    assert [OnBoard(**one) for one in gather_facts._services()] == [
        OnBoard("edgeveil-hall", HALL, "camera:1", "127.0.0.1:9465", ["edgeveil-hall", "edgeveil-hall-inside"]),
        OnBoard("edgeveil", FIRST, "camera:0", "", ["edgeveil", "edgeveil-inside"], counts=True),
    ]


def test_the_plan_of_another_service_names_its_users_and_its_ledger():
    facts = Facts(
        "aarch64",
        "3.11.2",
        10**10,
        False,
        True,
        True,
        interpreters={"numpy": "2.4.0", "cv2": "4.11.0"},
        services=(THERE,),
    )
    bundle = BundleFacts("11", "hall", 1, 1, "aa", data=b"x", runtime=b"y", spends=True)
    done = plan(
        facts,
        bundle,
        PI.at(HALL),
        Wanted("camera:1", ("none",)),
        trust=TrustFacts("00", 1, ("aa",), files={"root.pub": b"k"}),
        service_files=lambda device: service_files.for_board(
            HALL, PI.at(HALL), Wanted("camera:1", ("none",)), facts, device
        ),
    )
    assert "for the users edgeveil-hall and edgeveil-hall-inside" in done.text()
    assert "/var/lib/edgeveil-hall/ledger" in done.text()


def test_a_card_brings_the_first_service(tmp_path):
    made = bundles.make_bundle(tmp_path)
    with pytest.raises(BadInput, match="A card brings the first service"):
        flash_target(
            made.path,
            f"dir:{tmp_path}",
            Connection(root=HALL),
            "workstation",
            trust=made.trust,
            wanted=Wanted("csv:x", ("npz:o.npz",)),
        )


def test_the_runtime_stops_and_reads_the_service_of_its_folder(tmp_path, monkeypatch):
    assert runtimes.units(HALL) == ["edgeveil-hall.service", "edgeveil-hall-inside.service"]
    assert runtimes.units(FIRST) == ["edgeveil.service", "edgeveil-inside.service"]
    (tmp_path / "edgeveil-hall").mkdir()
    (tmp_path / "edgeveil-hall/edge.json").write_text('{"device": "edgetpu"}')
    monkeypatch.setattr(paths, "DEFAULT_PATH", f"{tmp_path}/edgeveil/edge.json".replace(str(tmp_path), "@"))
    monkeypatch.setattr(paths, "named", lambda path, service: f"{tmp_path}/{service}/edge.json")
    assert runtimes.trial_device(None, HALL) == "edgetpu"
    assert runtimes.trial_device(None, "/opt/edgeveil-other") == "cpu"
    assert runtimes.trial_device("cuda", HALL) == "cuda"
