"""What counts in a round and what does not, how theta follows, and that a journal tells all of it."""

import numpy as np
import pytest

from edgeveil.edge_runtime.bundle.reader import read_bundle
from edgeveil.edge_runtime.bundle.trust_store import open_trust
from edgeveil.edge_runtime.errors import BadInput, DeviceFailed
from edgeveil.edge_runtime.frames import _PIPELINE, PerturbedFrame
from edgeveil.edge_runtime.sinks.network.wire import Format
from edgeveil.trainer.collect.federation.descent import Descent
from edgeveil.trainer.collect.federation.exchange import Message
from edgeveil.trainer.collect.federation.federate import Gate, checked, federate
from edgeveil.trainer.collect.federation.training_journal import Journal, Plan
from edgeveil.trainer.collect.reporting import reporting
from tests.support.promised import collector_bundles, fleet
from tests.support.promised import gradient_examples as gradients

PLAN = Plan(rounds=4, devices=3, lot=3, step=2.0)


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    made = gradients.made(tmp_path_factory.mktemp("bundle"))
    return read_bundle(made.path, open_trust(made.trust))


def record(bundle, run, number, report=(1, -1), slot=0):
    frame = PerturbedFrame(run << 32 | number, {"report": np.array(report, np.int8)}, _PIPELINE, slot=slot)
    return Format(bundle.manifest.outputs, bundle.manifest).encode(frame, b"12345678", 0)


class Devices:
    """Three devices that answer each round at once, and ``more``: messages that come before their answers."""

    def __init__(self, bundle, more=lambda *_: (), stop_before=99):
        self._bundle, self._more, self._stop_before = bundle, more, stop_before
        self.thetas, self._waiting = [], []

    def publish(self, model):
        one = gradients.FORM.unpack(model)
        if one.number == self._stop_before:
            raise KeyboardInterrupt
        self.thetas.append(one.theta)
        signs = np.random.default_rng(one.number).choice([-1, 1], (3, 2))
        self._waiting = [*self._more(one.run, one.number)]
        self._waiting += [Message(f"d{i}", record(self._bundle, one.run, one.number, signs[i])) for i in range(3)]

    def next(self, _timeout_s):
        return self._waiting.pop(0) if self._waiting else None


def train(bundle, journal, devices, plan=PLAN, **more):
    opened = Journal(journal, bundle.manifest_sha256, plan)
    try:
        more = {"wait_s": 5.0, "say": print, **more}
        return federate(bundle, reporting(bundle), devices, opened, plan, **more)
    finally:
        opened.close()


def test_theta_follows_from_the_journal_and_devices_get_it(bundle, tmp_path):
    devices = Devices(bundle)
    found = train(bundle, tmp_path / "j", devices)
    theta, mean = fleet.replayed(fleet.lines(tmp_path / "j"), gradients.table(gradients.document()), 2.0, 4)
    assert found["theta"] == pytest.approx(theta, abs=1e-9)
    assert found["mean_of_later_half"] == pytest.approx(mean, abs=1e-9)
    assert devices.thetas[0].tolist() == [0, 0]
    assert len({tuple(one) for one in devices.thetas}) == 4
    assert found["reports"] == {"counted": 12, "refused": {}}
    assert (found["loss"], found["epsilon"], found["rounds_short"]) == ("logistic", 4.0, 0)


def test_an_interrupted_training_goes_on_to_the_same_theta(bundle, tmp_path):
    whole = train(bundle, tmp_path / "whole", Devices(bundle))
    for stop in (2, 4):
        with pytest.raises(KeyboardInterrupt):
            train(bundle, tmp_path / "j", Devices(bundle, stop_before=stop))
    with (tmp_path / "j").open("ab") as file:
        file.write(b'{"round":4,"device":"d0","rep')  # a crash while it was written
    again = train(bundle, tmp_path / "j", Devices(bundle))
    assert again["theta"] == whole["theta"]
    assert again["mean_of_later_half"] == whole["mean_of_later_half"]
    assert len(fleet.lines(tmp_path / "j")) == 16


def test_reports_of_an_open_round_are_kept(bundle, tmp_path):
    clock = iter(range(1000))
    devices = Devices(bundle)
    take = devices.next
    devices.next = lambda seconds: take(seconds) if len(devices._waiting) > 1 else cut()

    def cut():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(bundle, tmp_path / "j", devices, clock=lambda: next(clock))
    assert [line["device"] for line in fleet.lines(tmp_path / "j")] == ["d0", "d1"]
    found = train(bundle, tmp_path / "j", Devices(bundle))
    assert found["reports"] == {"counted": 12, "refused": {"second of its round": 2}}


def test_what_does_not_count_is_refused_by_reason(bundle, tmp_path):
    other = collector_bundles.opened(collector_bundles.made(tmp_path, "duchi-linf", d=3))
    strange = Format(other.manifest.outputs, other.manifest)
    frame = PerturbedFrame(1, {"report": np.ones(3, np.int8)}, _PIPELINE)

    def more(run, number):
        yield Message("d0", b"nonsense")
        yield Message("d0", strange.encode(frame, b"12345678", 0))
        yield Message("d0", record(bundle, run ^ 1, number))
        yield Message("d0", record(bundle, run, number - 1))
        yield Message("d0", record(bundle, run, number + 1))
        yield Message("d0", record(bundle, run, number, (0, 1)))
        yield Message("d0", record(bundle, run, number, slot=1))
        yield Message("d2", record(bundle, run, number))
        yield Message("d2", record(bundle, run, number, (-1, -1)))

    found = train(bundle, tmp_path / "j", Devices(bundle, more))
    # Of the two of d2 and its answer, which is still there when the lot is whole, the first counts.
    wanted = {"of another format": 8, "of another run": 4, "late": 4, "of a round to come": 4}
    wanted |= {"outside the alphabet": 8, "second of its round": 4}
    assert found["reports"] == {"counted": 12, "refused": wanted}


def test_a_round_does_without_who_is_silent_and_waits_for_the_first(bundle, tmp_path):
    seconds, said = [0.0], []
    devices = Devices(bundle)
    take = devices.next

    def next_(timeout_s):
        seconds[0] += max(timeout_s, 0.01)
        if len(devices._waiting) == 1 or seconds[0] < 8:
            return None
        return take(timeout_s)

    devices.next = next_
    found = train(bundle, tmp_path / "j", devices, wait_s=5.0, say=said.append, clock=lambda: seconds[0])
    assert found["rounds_short"] == 4
    assert found["reports"]["counted"] == 8
    assert said == ["Nobody answered in round 1 for 5 s: do the devices run, with this bundle?"]


def silenced(devices, rounds):
    """Devices whose reports of these rounds are lost, and a clock that waiting moves."""
    seconds, publish, take = [0.0], devices.publish, devices.next

    def publish_(model):
        publish(model)
        if gradients.FORM.unpack(model).number in rounds:
            devices._waiting = []

    def next_(timeout_s):
        message = take(timeout_s)
        seconds[0] += 0.0 if message else max(timeout_s, 0.01)
        return message

    devices.publish, devices.next = publish_, next_
    return lambda: seconds[0]


def test_a_round_whose_reports_were_lost_moves_nothing_and_the_next_is_asked(bundle, tmp_path):
    devices, said = Devices(bundle), []
    found = train(bundle, tmp_path / "j", devices, say=said.append, clock=silenced(devices, {2}))
    assert said == ["Nobody answered in round 2 for 5 s: the next devices are asked."]
    assert devices.thetas[2].tolist() == devices.thetas[1].tolist()
    assert (found["rounds_short"], found["reports"]["counted"]) == (1, 9)
    theta, mean = fleet.replayed(fleet.lines(tmp_path / "j"), gradients.table(gradients.document()), 2.0, 4)
    assert found["theta"] == pytest.approx(theta, abs=1e-9)
    assert found["mean_of_later_half"] == pytest.approx(mean, abs=1e-9)
    assert train(bundle, tmp_path / "j", Devices(bundle))["theta"] == found["theta"]


def test_three_lost_rounds_in_a_row_end_a_training_which_then_goes_on_behind_them(bundle, tmp_path):
    plan = PLAN._replace(rounds=6)
    devices = Devices(bundle)
    with pytest.raises(DeviceFailed, match="round 4 for 5 s, 3 waits in a row"):
        train(bundle, tmp_path / "j", devices, plan, clock=silenced(devices, {2, 3, 4}))
    found = train(bundle, tmp_path / "j", Devices(bundle), plan)
    assert (found["rounds_short"], found["reports"]["counted"]) == (2, 12)


def test_a_training_that_nobody_answers_ends(bundle, tmp_path):
    seconds = [0.0]
    devices = Devices(bundle)
    devices.next = lambda timeout_s: seconds.__setitem__(0, seconds[0] + max(timeout_s, 0.01))
    with pytest.raises(DeviceFailed, match=r"round 1 for 5 s, 3 waits in a row.*repeat the command"):
        train(bundle, tmp_path / "j", devices, clock=lambda: seconds[0])


@pytest.mark.parametrize(
    "text",
    ["", "x\n", "{}\n", '{"run":1}\n{"closed":1}\n', "[1]\n", '{"run":1}\n{"round":2,"device":"a","report":[1]}\n'],
)
def test_what_is_no_journal_is_refused_and_left_alone(bundle, tmp_path, text):
    (tmp_path / "j").write_text(text)
    with pytest.raises(BadInput, match="journal"):
        Journal(tmp_path / "j", bundle.manifest_sha256, PLAN)
    assert (tmp_path / "j").read_text() == text


def test_the_later_half_and_the_bound():
    descent = Descent(1, rounds=3, step=1.0, most=1.5)
    assert descent.estimate() is None
    thetas = []
    for _ in range(3):
        descent.take(np.array([[-1.0], [-1.0]]))
        thetas.append(descent.theta[0])
    assert thetas == pytest.approx([1.0, 1.5, 1.5])
    assert descent.estimate() == pytest.approx([1.5])


@pytest.mark.parametrize("plan", [Plan(1, 1, 1, 1.0), Plan(1, 4, 5, 1.0), Plan(1, 4, 0, 1.0)])
def test_plans_that_make_no_sense(plan):
    with pytest.raises(BadInput):
        checked(plan)


def test_the_gate_knows_its_run(bundle):
    gate = Gate(bundle, reporting(bundle), 7)
    assert gate.passed(Message("d", record(bundle, 7, 1)), 1, {}) is not None
    assert gate.passed(Message("d", record(bundle, 8, 1)), 1, {}) is None
