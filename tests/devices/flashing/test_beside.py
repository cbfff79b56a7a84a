"""A service takes nothing from another one of its board, whatever its folder is called; and what is said of both."""

import dataclasses
import re
import string

import pytest

from edgeveil.devices import profiles
from edgeveil.devices.agents import gather_facts
from edgeveil.devices.flashing import needs, service_files
from edgeveil.devices.flashing.placement import Refused
from edgeveil.devices.flashing.plan import check_beside
from edgeveil.devices.flashing.records import OnBoard, Wanted, pages_at
from edgeveil.edge_runtime import paths

FIRST, HALL = "/opt/edgeveil", "/opt/edgeveil-hall"
PI = profiles.load("raspberry-pi-cpu")
THERE = OnBoard("edgeveil", FIRST, "camera:0", "", ("edgeveil", "edgeveil-inside"))
COUNTS = dataclasses.replace(THERE, counts=True)


def lines(root, source, sinks, services, *, profile=PI, spends=False):
    """What a flash says of the services beside this one, or its refusal."""
    return check_beside(profile.at(root).service, Wanted(source, sinks), services, spends=spends)


@pytest.mark.parametrize(
    ("root", "source", "sinks", "words"),
    [
        ("/srv/veil", "camera:1", (), "a service next to it has its own: root = /opt/edgeveil-NAME"),
        (HALL, "camera:0", (), "camera:0 is the camera of the service edgeveil"),
        (HALL, "camera:/dev/video0", (), "root = /opt/edgeveil."),
    ],
)
def test_what_would_take_from_another_service_is_refused(root, source, sinks, words):
    with pytest.raises(Refused) as refused:
        lines(root, source, sinks, (THERE,))
    assert words in str(refused.value)
    assert refused.value.exit_code == 2


def test_what_is_said_and_which_port_its_pages_have():
    assert lines(FIRST, "camera:0", (), (THERE,)) == []
    assert lines(FIRST, None, (), (THERE,)) == []
    (note,) = lines(FIRST, "camera:1", (), (THERE,))
    assert "reads camera:0 no more; a service next to it" in note
    (note,) = lines(HALL, "camera:1", (), (THERE,))
    assert note == "the pages of edgeveil-hall are at 127.0.0.1:9465"
    others = (THERE, OnBoard("edgeveil-a", "/opt/edgeveil-a", "", "127.0.0.1:9465"))
    assert pages_at(HALL, others) == "127.0.0.1:9466"
    assert pages_at("/opt/edgeveil-a", others) == "127.0.0.1:9465", "it keeps its own"
    assert pages_at(FIRST, others) is None
    for source in ("simulate:depth", "wifi:wlan0", "https://camera.example/x"):
        assert lines(HALL, source, (), (OnBoard("edgeveil", FIRST, source, "off"),))[0].startswith("the pages")


def test_a_camera_on_a_network_is_known_without_its_path():
    there = OnBoard("edgeveil", FIRST, "rtsps://camera.example:322/...", "")
    assert lines(FIRST, "rtsps://who:pw@camera.example/1", (), (there,)) == []
    assert len(lines(FIRST, "rtsps://other.example/1", (), (there,))) == 1


def test_a_camera_with_a_password_is_not_shown():
    there = OnBoard("edgeveil", FIRST, "https://who:topsecret@camera.example/x", "")
    assert "topsecret" not in str(lines(FIRST, "camera:1", (), (there,)))


def test_a_port_is_given_once_however_many_services_there_are():
    services = (THERE,)
    for letter in string.ascii_lowercase:
        root = f"/opt/edgeveil-{letter}"
        services += (OnBoard(f"edgeveil-{letter}", root, "", pages_at(root, services)),)
    ports = [one.port for one in services]
    assert len(set(ports)) == len(ports) == 27


# Every word that stands behind "edgeveil-" anywhere in what is installed for the first service, and some more.
_INSTALLED = service_files.files(FIRST, "rtsps://camera.example/x", ["none"], PI) | service_files.update_files(
    FIRST, "https://updates.example/all", PI.service
)
WORDS = {
    word.decode()
    for text in (*_INSTALLED.values(), *(path.encode() for path in _INSTALLED), paths.ENGINES.encode())
    for word in re.findall(rb"edgeveil-([a-z]+)", text)
}
TAKEN = {"camera", "edge", "engines", "inside", "recover", "update", "watchdog"}


def test_no_name_is_a_unit_a_user_or_a_folder_of_the_first_service():
    assert WORDS == TAKEN
    for word in TAKEN:
        assert paths.service_of(f"/opt/edgeveil-{word}") == "edgeveil" == gather_facts._service(f"/opt/edgeveil-{word}")
        with pytest.raises(Refused, match="and root in boards"):
            lines(f"/opt/edgeveil-{word}", "camera:1", (), (THERE,))


@pytest.mark.parametrize("word", ["a", "edgex", "xedge", "edgeveil", "ainside", "insidee", "cameras", "host", "first"])
def test_a_name_that_resembles_another_has_files_and_users_of_its_own(word):
    beside = (FIRST, HALL, "/opt/edgeveil-hallx", "/opt/edgeveil-in")
    root = f"/opt/edgeveil-{word}"

    def everything(one):
        own = PI.at(one)
        files = service_files.files(one, "rtsps://camera.example/x", ["none"], own)
        ledger = paths.named(paths.LEDGER, paths.service_of(one))
        owner = own.service
        names = {owner.user, owner.inside_user, owner.camera_user, ledger, paths.named(paths.ENGINES, own.service.user)}
        return {*files, *names} - {service_files.WATCHDOG}

    for other in beside:
        assert everything(root) & everything(other) == set()


@pytest.mark.parametrize(
    "root",
    [
        "/var/lib/edgeveil/edgeveil-hall",  # which the first service's own user may write
        "/run/edgeveil-door/edgeveil-hall",
        "/var/cache/edgeveil-engines/edgeveil-hall",
        "/opt/edgeveil/edgeveil-hall",
        "/opt/edgeveil-x/../edgeveil-hall",
        "/opt/edgeveil-hall/..",
        "/opt/edgeveil//x",
    ],
)
def test_a_folder_in_which_another_service_writes_is_refused(root):
    with pytest.raises(Refused, match="written out"):
        lines(root, "camera:1", (), (THERE,))


@pytest.mark.parametrize(
    ("root", "sink"),
    [
        (HALL, "npz:/var/lib/edgeveil/out"),
        (HALL, "npz:/var/lib/edgeveil-door/out?rotate=1MB"),
        (HALL, "npz:/var/lib/edgeveil-hall/../edgeveil/out"),
        (HALL, "csv:///var/lib/edgeveil/out.csv"),
        (FIRST, "npz:/var/lib/edgeveil-hall/out"),
    ],
)
def test_a_sink_in_another_ones_folder_is_refused(root, sink):
    service = PI.at(root).service
    with pytest.raises(Refused, match="alone"):
        needs.of_wanted(Wanted("camera:1", (sink,)), service)
    own = "edgeveil-hall" if root == HALL else "edgeveil"
    needs.of_wanted(Wanted("camera:1", (f"npz:/var/lib/{own}/out", "mqtts://x/var/lib/edgeveil/y")), service)


def test_the_users_of_a_profile_are_not_those_of_another_service():
    owner = PI.service.model_copy(update={"user": "veil", "inside_user": "raw"})
    mine = PI.model_copy(update={"service": owner})
    assert (mine.at(HALL).service.user, mine.at(HALL).service.inside_user) == ("veil-hall", "raw-hall")
    assert mine.at(FIRST).service.user == "veil"
    taken = PI.model_copy(update={"service": PI.service.model_copy(update={"user": "edgeveil-hall"})})
    hall = OnBoard("edgeveil-hall", HALL, "", "", ("edgeveil-hall", "edgeveil-hall-inside"))
    with pytest.raises(Refused, match="could change its ledger") as refused:
        lines(FIRST, "camera:1", (), (hall,), profile=taken)
    assert refused.value.reason == "another-user"


@pytest.mark.parametrize(
    ("there", "spends", "words"),
    [
        (COUNTS, True, "edgeveil and this service count epsilon apart: a person before all their cameras pays in each"),
        (THERE, True, "no ledger counts the reports of edgeveil"),
        (COUNTS, False, "no ledger counts the reports of this service"),
    ],
)
def test_that_services_count_apart_is_said_before_a_flash(there, spends, words):
    said = lines(HALL, "camera:1", (), (there,), spends=spends)
    assert [words in one for one in said] == [False, True]


def test_nothing_is_said_of_epsilon_where_none_is_counted_or_nobody_is_beside():
    assert len(lines(HALL, "camera:1", (), (THERE,))) == 1
    assert lines(FIRST, "camera:0", (), (COUNTS,), spends=True) == []
