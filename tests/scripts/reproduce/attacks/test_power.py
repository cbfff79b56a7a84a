"""The power of the attacks: the set is blinded and complete, the page says what was recorded, false alarms are rare."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from scripts.reproduce.attacks import planted, power
from scripts.reproduce.pages import power_page
from tests.support.checkout import ROOT

RECORD = ROOT / power_page.RECORD
CHEAP = tuple(family for family in power.of_registry("none") if family.name == "lowest bits")
RECORDED = pytest.mark.skipif(not RECORD.is_file(), reason="power is not recorded")


def recorded() -> dict:
    return json.loads(RECORD.read_text())


def test_the_set_holds_every_leak_at_every_strength_and_the_same_seed_makes_the_same():
    whole = power.cases(0)
    assert whole == power.cases(0) != power.cases(1)
    counted = Counter((one.kind, one.strength, one.rows) for one in whole if one.strength)
    assert len(counted) == len(planted.LEAKS) * len(power.STRENGTHS) * len(power.ROWS)
    assert set(counted.values()) == {power.REPEATS}
    assert sorted(one.kind for one in whole if not one.strength) == sorted(planted.LEAKS)
    assert len({one.name for one in whole}) == len(whole)
    assert [one.kind for one in whole] != sorted(one.kind for one in whole)


def test_a_case_is_measured_with_its_bits():
    found = power.measured(power.Case("bit of a pixel", 1.0, 600, 4), CHEAP)
    assert (found["found"], found["by"], found["p"]) == (True, "lowest bits", 0.001)
    assert found["bits"] == pytest.approx(0.971, abs=1e-3)
    few = power.measured(power.Case("few people", 1.0, 600, 4), CHEAP)
    assert few["bits"] == pytest.approx(0.05 * 0.971, abs=1e-3)
    nothing = power.measured(power.Case("bit of a pixel", 0.0, 600, 4), CHEAP)
    assert (nothing["found"], nothing["bits"]) == (False, 0)


def test_false_alarms_go_on_where_they_stopped(monkeypatch):
    monkeypatch.setattr(power, "of_registry", lambda networks: CHEAP)
    first = list(power.alarms(100, 2, {}))[-1]
    again = list(power.alarms(100, 3, {"p": dict.fromkeys(first["p"], 0.001), "leaks": first["leaks"]}))[-1]
    assert first["seeds"] == 2
    assert (again["seeds"], again["fired"]) == (3, 2 + (again["p"]["102"] <= 0.01))


@RECORDED
def test_the_page_and_its_picture_say_what_was_recorded(tmp_path):
    record = recorded()
    assert (ROOT / power_page.PAGE).read_text() == power_page.page(record, **power_page.beside(ROOT))
    power_page.draw(record, tmp_path / "drawn.svg")
    assert (ROOT / power_page.PICTURE).read_bytes() == (tmp_path / "drawn.svg").read_bytes()


@RECORDED
def test_false_alarms_are_at_most_those_allowed():
    counted = recorded()["false_alarms"]
    assert counted["seeds"] == 100
    assert counted["fired"] <= counted["allowed"] == 2
    assert len(counted["leaks"]) == 100
    assert sum(counted["leaks"].values()) <= 2


@RECORDED
def test_strong_leaks_in_many_rows_are_found_and_the_recorded_set_is_the_one_of_the_script():
    record = recorded()
    if record["settings"].get("found") != "verdict":
        pytest.skip("the record is of an earlier set: python -m scripts.reproduce.attacks.power makes it anew")
    whole = {one.name for one in power.cases(record["settings"]["seed"])}
    done = {power.Case(*(one[key] for key in power.Case._fields)).name for one in record["cases"]}
    assert done <= whole
    for kind in planted.LEAKS:
        strongest = [one for one in record["cases"] if (one["kind"], one["strength"], one["rows"]) == (kind, 1.0, 2400)]
        assert all(one["found"] for one in strongest), kind
