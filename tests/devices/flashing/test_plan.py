"""The planner: every file in plans/ is one board, one bundle, and what must come of the two."""

from pathlib import Path
from typing import get_args

import pytest
import tomllib

from edgeveil.devices import profiles
from edgeveil.devices.flashing.card import plan_card
from edgeveil.devices.flashing.placement import Refused, within
from edgeveil.devices.flashing.plan import plan
from edgeveil.devices.flashing.records import BundleFacts, Facts, Installed, TrustFacts, Wanted, Wheels
from edgeveil.devices.flashing.steps import Step
from edgeveil.edge_runtime.errors import BadInput
from tests.support.checkout import ROOT

CASES = sorted(Path(__file__).parent.glob("plans/*.toml"))


def tuples(table):
    return {name: tuple(value) if isinstance(value, list) else value for name, value in table.items()}


SERVICE = {"/etc/edgeveil/edge.json": "settings"}


def planned(case):
    """The plan of one file, or ``Refused``."""
    facts, wanted = Facts.from_document(case["facts"]), Wanted(**tuples(case.get("wanted", {})))
    files = {} if wanted.keeps_settings(facts) else case.get("service_files", SERVICE)
    return plan(
        facts,
        BundleFacts(**tuples(case["bundle"])),
        profiles.load(case["profile"]),
        wanted,
        trust=TrustFacts(**tuples(case["trust"])) if "trust" in case else None,
        wheels=Wheels(**case["wheels"]) if "wheels" in case else None,
        service_files=lambda _device: {path: text.encode() for path, text in files.items()},
    )


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_plan(path):
    case = tomllib.loads(path.read_text())
    expect = case["expect"]
    if "refused" in expect:
        with pytest.raises(Refused) as refused:
            planned(case)
        assert refused.value.reason == expect["refused"]
        assert expect["says"] in str(refused.value)
        return
    made = planned(case)
    assert [step.kind for step in made.steps] == expect["steps"]
    assert (made.artefact, made.backend) == (expect["artefact"], expect["backend"])
    assert made.device == expect.get("device", "cpu")
    assert ("note" in expect) == bool(made.notes)
    assert expect.get("note", "") in made.text()
    sent = {"upload": case["bundle"].get("size", 0), "wheels": case.get("wheels", {}).get("size", 0)}
    assert made.size == sum(sent.get(kind, 0) for kind in expect["steps"])


@pytest.mark.parametrize(("wheels", "noted"), [({}, True), ({"ai-edge-litert": "2.3.0", "paho-mqtt": "2.1.0"}, False)])
def test_a_card_says_what_mqtt_needs_there(wheels, noted):
    """What an image has is known to its board alone."""
    brought = Wheels("site-77", 1, "aarch64", "3.13", wheels) if wheels else None
    trust, bundle = TrustFacts("aa", 1, ("aa",)), BundleFacts("11", "hall", 1, 1, "aa", artefacts=("tflite-int8",))
    wanted = Wanted("camera:0", ("mqtts://broker/hall",))
    made = plan_card(bundle, profiles.load("raspberry-pi5"), wanted, trust=trust, wheels=brought)
    assert ("edgeveil board wheels raspberry-pi5 --with mqtts" in made.text()) == noted


@pytest.mark.parametrize(
    ("unheld", "source", "accepted", "noted"),
    [
        (True, "camera:0", True, True),
        (True, "camera:0", False, False),
        (True, "npz:/srv/f", False, False),
        (False, "camera:0", False, False),
    ],
)
def test_codes_that_nothing_holds_are_acknowledged_for_a_live_source(unheld, source, accepted, noted):
    trust, bundle = TrustFacts("aa", 1, ("aa",)), BundleFacts("11", "hall", 1, 1, "aa", unheld=unheld)
    wanted = Wanted(source, ("udp://10.0.0.2:9000",), accept_leak=accepted)

    def text() -> str:
        return plan_card(bundle, profiles.load("raspberry-pi5"), wanted, trust=trust).text()

    if unheld and source == "camera:0" and not accepted:
        with pytest.raises(Refused, match=r"nothing holds it.*--accept leak"):
            text()
    else:
        assert ("nothing holds it" in text()) == noted


def test_the_plan_says_for_how_many_frames_of_a_live_source_a_bound_holds():
    trust, bound = TrustFacts("aa", 1, ("aa",)), "There is no bound for more than one frame"
    bundle = BundleFacts("11", "hall", 1, 1, "aa", stream_bound=bound)
    for source, said in (("camera:0", True), ("npz:/srv/f", False)):
        wanted = Wanted(source, ("udp://10.0.0.2:9000",))
        assert (bound in plan_card(bundle, profiles.load("raspberry-pi5"), wanted, trust=trust).text()) == said


def test_there_are_many_of_them_and_every_refusal_is_among_them():
    expected = [tomllib.loads(path.read_text())["expect"] for path in CASES]
    reasons = {one["refused"] for one in expected if "refused" in one}
    source = "".join(path.read_text() for path in (ROOT / "devices/flashing").glob("*.py"))
    known = {part.split('"')[1] for part in source.split("raise Refused(")[1:]}
    of_neighbours = {"another-folder", "another-user", "camera-in-use"}  # tests/devices/flashing/test_beside.py
    assert len(CASES) >= 60
    assert reasons == known - of_neighbours


def test_every_kind_of_step_is_in_some_plan():
    expected = [tomllib.loads(path.read_text())["expect"] for path in CASES]
    assert {kind for one in expected for kind in one.get("steps", [])} == {kind.kind for kind in get_args(Step)}
    assert len(get_args(Step)) == 8


def test_an_answer_that_is_no_facts_is_the_users_to_know():
    with pytest.raises(BadInput, match="is not its facts"):
        Facts.from_document({"architecture": "aarch64"})
    with pytest.raises(BadInput, match="is not its facts"):
        Facts.from_document({**dict.fromkeys(Facts.__dataclass_fields__, 0), "edgeveil": {"surprise": 1}})


def test_facts_come_back_as_they_were_gathered(tmp_path, monkeypatch):
    from edgeveil.devices.agents import gather_facts
    from edgeveil.devices.agents.gather_facts import gather

    monkeypatch.setattr(gather_facts, "INTERPRETERS", ("numpy",))  # the others take seconds to load
    found = Facts.from_document(gather(str(tmp_path / "opt")))
    assert found.edgeveil is None
    assert found.free_bytes > 0
    assert "numpy" in found.interpreters
    (tmp_path / "state.json").write_text('{"committed": "11", "floor": 4}')
    assert Facts.from_document(gather(str(tmp_path))).edgeveil == Installed(
        committed="11", floor=4, runtime=False, service_active=False
    )


def test_a_32_bit_system_and_a_stick_are_seen(tmp_path, monkeypatch):
    from edgeveil.devices.agents import gather_facts

    monkeypatch.setattr(gather_facts, "INTERPRETERS", ("numpy",))
    monkeypatch.setattr(gather_facts, "BITS", 32)
    monkeypatch.setattr(gather_facts.platform, "machine", lambda: "aarch64")
    monkeypatch.setattr(gather_facts, "USB", str(tmp_path))
    stick = profiles.load("coral-usb").accelerator_path
    assert gather_facts.gather("/nowhere", stick)["accelerator"] is False
    (tmp_path / "1-2").mkdir()
    (tmp_path / "1-2/idVendor").write_text("18d1\n")
    (tmp_path / "1-2/idProduct").write_text("9302\n")
    found = gather_facts.gather("/nowhere", stick)
    assert (found["architecture"], found["accelerator"]) == ("armv7l", True)


@pytest.mark.parametrize(
    ("version", "limits", "holds"),
    [
        ("2.11.1", "<2.12", True),
        ("2.12", "<2.12", False),
        ("2.11.1", "<=2.11", False),
        ("2022.3.2", ">=2022.3.1,<2023", True),
        ("2023.0", ">=2022.3.1,<2023", False),
        ("2022.3", ">=2022.3.1,<2023", False),
        ("1.10.1", "==1.10.*", True),
        ("2.5.0.post1", "<2.12", True),
        ("2022.3.1-9227-cf2c7da5689", ">=2022.3.1,<2023", True),
        ("unknown", ">=0", False),
    ],
)
def test_versions(version, limits, holds):
    assert within(version, limits) is holds
