"""What the services of a board told of one person is added up, and what is not known of it is said."""

import json

import pytest

from edgeveil.edge_runtime import paths
from edgeveil.edge_runtime.ext.ledger.book import Ledger, board_total, board_total_text, create
from edgeveil.edge_runtime.manifest.manifest import Limit
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
