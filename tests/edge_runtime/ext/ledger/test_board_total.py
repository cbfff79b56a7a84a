"""What the services of a board told of one person is added up, and what is not known of it is said."""

import json
import os
import signal

import pytest

from edgeveil.devices.agents import gather_facts
from edgeveil.edge_runtime import paths
from edgeveil.edge_runtime.bundle.board_state import read_state
from edgeveil.edge_runtime.bundle.trust_store import open_trust
from edgeveil.edge_runtime.errors import PrivacyStop
from edgeveil.edge_runtime.ext.ledger.allowance import open_allowance
from edgeveil.edge_runtime.ext.ledger.book import Ledger, board_total, board_total_text, create, identity, of_service
from edgeveil.edge_runtime.manifest.manifest import Limit, Price
from edgeveil.edge_runtime.releases.store import Releases
from tests.edge_runtime.bundle.signed_trust import device, trust_file
from tests.support import bundles
from tests.support.promised.counted_bundles import MACHINE

EPSILON = 10**6
NO_END = [Limit(10**9, None)]


@pytest.fixture
def board(tmp_path, monkeypatch):
    """A function that gives a service of the board settings, and a ledger with charges: epsilon by unit."""
    (tmp_path / "machine-id").write_text(MACHINE + "\n")
    monkeypatch.setattr("edgeveil.edge_runtime.machine._MACHINE_IDS", (str(tmp_path / "machine-id"),))

    def service(name, charges=None, **settings):
        own = tmp_path / paths.named(paths.DEFAULT_PATH, name).lstrip("/")
        own.parent.mkdir(parents=True)
        own.write_text(json.dumps(settings))
        if charges is None:
            return None
        place = tmp_path / settings.get("ledger", paths.named(paths.LEDGER, name)).lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        create(str(place))
        for unit, epsilon in charges.items():
            Ledger(str(place)).charge({unit: epsilon}, EPSILON, NO_END)
        return place

    return service


def text(folder):
    return board_total_text(board_total(str(folder)))


def test_a_person_before_both_cameras_pays_in_each(board, tmp_path):
    board("edgeveil", {None: 3})
    board("edgeveil-hall", {None: 4})
    found = board_total(str(tmp_path))
    assert found == {
        "services": [{"service": "edgeveil", "epsilon": 3.0}, {"service": "edgeveil-hall", "epsilon": 4.0}],
        "epsilon": 7.0,
        "uncounted": [],
    }
    said = board_total_text(found)
    assert said == "epsilon 7 of one person at most before all cameras (edgeveil 3, edgeveil-hall 4)"


def test_of_subjects_the_one_who_paid_most_beside_what_is_of_everybody(board, tmp_path):
    board("edgeveil", {1: 5, 2: 2, None: 1})
    assert text(tmp_path) == "epsilon 6 of one person at most"


def test_a_ledger_at_a_place_of_its_own_is_counted_once(board, tmp_path):
    board("edgeveil", {None: 3}, ledger="/srv/ledger")
    board("edgeveil-hall", ledger="/srv/ledger")
    assert board_total(str(tmp_path))["epsilon"] == 3


def test_what_is_not_known_is_not_taken_for_nothing(board, tmp_path):
    board("edgeveil", {None: 3})
    board("edgeveil-hall", {None: 4}).write_bytes(b"{}")
    board("edgeveil-door")
    assert board_total(str(tmp_path))["epsilon"] is None
    assert text(tmp_path) == (
        "epsilon unknown of one person at most before all cameras (edgeveil 3, edgeveil-hall unknown); not counted: "
        "edgeveil-door"
    )
    (tmp_path / "etc/edgeveil/edge.json").write_text("{")
    assert board_total(str(tmp_path))["services"][0] == {"service": "edgeveil", "epsilon": None}


def test_other_folders_are_no_services(board, tmp_path):
    for name in ("edgeveil-inside", "edgeveil-Hall", "other"):
        (tmp_path / "var/lib" / name).mkdir(parents=True)
        create(str(tmp_path / "var/lib" / name / "ledger"))
    assert text(tmp_path) == "no service counts it"


@pytest.mark.parametrize("what", ["pipe", "/dev/zero", "secret"])
def test_what_the_outside_puts_in_the_ledgers_place_is_neither_waited_for_nor_followed(board, tmp_path, what):
    """``status``, ``fleet status`` and ``recover`` of root's read there."""
    place = board("edgeveil", {None: 3})
    place.rename(tmp_path / "secret")
    if what == "pipe":
        os.mkfifo(place)
    else:
        place.symlink_to(tmp_path / what)
    if os.geteuid() == 0:
        os.lchown(place, 1, 1)
        os.chown(place.parent, 1, 1)
    before = signal.signal(signal.SIGALRM, lambda *_: 1 / 0)
    signal.alarm(20)
    try:
        assert board_total(str(tmp_path))["services"] == [{"service": "edgeveil", "epsilon": None}]
        assert of_service("edgeveil", str(tmp_path)) == ("", 0)
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def test_a_lost_ledger_is_no_empty_one(board, tmp_path):
    """The board remembers in which ledger it counts: another one is charged only where the owner forgets the first."""
    place = board("edgeveil", {None: 3})
    trust = device(tmp_path / "opt/edgeveil/trust", trust_file(1))
    root = str(trust.parent)

    def releases():
        return Releases(
            root, lambda floor: open_trust(trust, floor=floor), ledger=lambda: of_service("edgeveil", str(tmp_path))
        )

    releases().install(bundles.make_bundle(tmp_path / "b").path.read_bytes(), lambda *_: None)
    releases().recover()
    known = read_state(root).ledger
    assert (known, read_state(root).spent) == (identity(Ledger(str(place)).book()), 3 * EPSILON)
    assert open_allowance(str(place), Price(EPSILON, NO_END), known, slots=1, tick_s=1.0)
    place.rename(tmp_path / "first")
    create(str(place))  # by the outside that was taken over, or by a hand
    for _ in range(2):
        releases().recover()
        assert (read_state(root).ledger, read_state(root).spent) == (known, 3 * EPSILON)
    with pytest.raises(PrivacyStop, match="is not the one that this board counted in: nothing leaves"):
        open_allowance(str(place), Price(EPSILON, NO_END), known, slots=1, tick_s=1.0)
    releases().count_anew()
    assert (read_state(root).ledger, read_state(root).spent) == (identity(Ledger(str(place)).book()), 0)
    found = gather_facts._edgeveil(root)
    assert (found["ledger"], found["spent"]) == (read_state(root).ledger, 0)
