"""A training by commands alone, over a real mosquitto and devices of two processes each; and what bad input gets."""

import json

import numpy as np
import pytest

from edgeveil.edge_runtime.cli.main import main as edge
from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.machine import machine_id
from tests.support import network_receivers, programs
from tests.support.promised import collector_bundles, fleet, gradient_examples

pytestmark = pytest.mark.programs

DEVICES, ROUNDS, SPARE, STEP = 6, 10, 3, 2.0
MICRO = 4_000_000


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    return gradient_examples.made(tmp_path_factory.mktemp("gradients"))


def people(device, n):
    rng = np.random.default_rng(device)
    x = rng.normal(size=(n, 2))
    return np.column_stack([x, rng.random(n) < 1 / (1 + np.exp(-x @ [6, -5]))])


@pytest.mark.cameras
def test_theta_is_that_of_the_reports_and_nobody_is_asked_twice_whoever_dies(bundle, tmp_path):
    programs.need("mosquitto")
    try:
        machine_id()
    except BadInput as error:
        pytest.skip(str(error))
    broker = network_receivers.Broker(tmp_path)
    journal = tmp_path / "journal"
    devices = [
        fleet.Device(tmp_path, bundle, broker.port, turn, people(turn, ROUNDS + SPARE)) for turn in range(DEVICES)
    ]
    words = ("--rounds", ROUNDS, "--devices", DEVICES, "--step", STEP, "--wait", 20)
    collector = fleet.federate(bundle, broker.port, journal, *words)
    try:
        for device in devices:
            device.start()
        assert network_receivers.eventually(lambda: closed(journal) >= 3, 60)
        devices[0].kill()
        collector.kill()  # it goes on from its journal
        collector.communicate()
        devices[0].start()
        collector = fleet.federate(bundle, broker.port, journal, *words)
        out, said = collector.communicate(timeout=90)
        assert collector.returncode == 0, said
        runs = [device.stop() for device in devices]
    finally:
        for process in [collector, *(device.process for device in devices if device.process)]:
            process.kill()
        broker.kill()
    found, lines = json.loads(out), fleet.lines(journal)
    theta, mean = fleet.replayed(lines, gradient_examples.table(gradient_examples.document()), STEP, ROUNDS)
    assert found["theta"] == pytest.approx(theta, abs=1e-6)
    assert found["mean_of_later_half"] == pytest.approx(mean, abs=1e-6)
    assert found["devices_heard"] == DEVICES
    assert found["reports"]["counted"] == sum("report" in line for line in lines)
    for device, run in zip(devices, runs, strict=True):
        accounts = [account.total for account in device.ledger().accounts.values()]
        assert set(accounts) == {MICRO}  # of each person who was asked, once
        reports = sum(line.get("device") == device.name for line in lines)
        assert 1 <= reports <= len(accounts) <= ROUNDS + SPARE
        assert run["dropped"].get("budget-spent", 0) == (
            0 if device is not devices[0] else len(accounts) - run["frames_out"]
        )
    assert runs[0]["dropped"]["budget-spent"] >= 3  # those of before it was killed


def closed(journal):
    return journal.read_bytes().count(b"closed") if journal.exists() else 0


WORDS = ("--to", "mqtt://127.0.0.1:1/tally", "--rounds", 4, "--step", 1)


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (("--devices", 1), "2 or more"),
        (("--devices", 4, "--lot", 5), "--lot: expected 1 to 4"),
        (("--devices", 4, "--lot", 0), "--lot: expected 1 to 4"),
        (("--devices", 4, "--step", 0), "--step: expected a number above 0"),
        (("--devices", 4, "--step", "nan"), "--step: expected a number above 0"),
        (("--devices", 4, "--out", "theta.json"), "ends with .npz"),
        (("--devices", 4, "--to", "mqtt://127.0.0.1:1/a/#"), "expected a topic"),
        (("--devices", 4, "--to", "mqtt://127.0.0.1:1/a"), "cannot be reached"),
    ],
)
def test_what_cannot_be_is_one_sentence(edgeveil, bundle, tmp_path, more, says):
    words = ("--trust", bundle.trust, "--state", tmp_path / "journal")
    code, out, err = edgeveil("federate", bundle.path, *words, *WORDS, *more)
    assert code == (4 if "reached" in says else 2)
    assert says in err
    assert out == ""


def test_a_bundle_without_gradients_and_a_journal_of_another_plan(edgeveil, bundle, tmp_path):
    other = collector_bundles.made(tmp_path / "other", "duchi-linf")
    journal = tmp_path / "journal"
    words = ("--state", journal, *WORDS, "--devices", 2)
    code, _, err = edgeveil("federate", other.path, "--trust", other.trust, *words)
    assert code == 2
    assert "edgeveil collect" in err
    assert not journal.exists()
    assert edgeveil("federate", bundle.path, "--trust", bundle.trust, *words)[0] == 4
    code, _, err = edgeveil("federate", bundle.path, "--trust", bundle.trust, *words, "--lot", 1)
    assert code == 2
    assert "of another training (its plan)" in err


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ((), "expected --model mqtt://HOST/TOPIC"),
        (("--model", "mqtt://127.0.0.1:1/tally", "--realtime", "--source", "video:x.mp4"), "csv:, arff: or npz:"),
    ],
)
def test_a_device_that_cannot_take_part_says_why(bundle, tmp_path, capsys, more, says):
    (tmp_path / "x.csv").write_text("1,1,1\n")
    words = ["run", bundle.path, "--trust", bundle.trust, "--sink", f"npz:{tmp_path}/out.npz"]
    words += ["--source", f"csv:{tmp_path}/x.csv", "--ledger", tmp_path / "ledger", "--health", "off", *more]
    assert edge([str(word) for word in words]) == 2
    assert says in capsys.readouterr().err
    assert not (tmp_path / "out.npz").exists()


def test_a_bundle_without_gradients_takes_no_rounds(tmp_path, capsys):
    made = collector_bundles.made(tmp_path, "duchi-linf")
    np.savez(tmp_path / "x.npz", x=np.ones((1, 4), np.uint8))
    words = ["run", made.path, "--trust", made.trust, "--source", f"npz:{tmp_path}/x.npz", "--health", "off"]
    words += ["--sink", f"npz:{tmp_path}/out.npz", "--model", "mqtt://127.0.0.1:1/tally"]
    assert edge([str(word) for word in words]) == 2
    assert "--model and --turn are for a bundle that reports gradients" in capsys.readouterr().err
