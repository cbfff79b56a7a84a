"""LPSGD over a real broker, with devices of two processes each that are killed on the way.

Records docs/results/dp/federated-devices.json; it stands on docs/results/local-privacy.md. 50 devices with 140 people
each, one report of each person (unit = subject, alpha 4), 500 rounds of 14 devices in turn; x, y and theta are those of
local_sgd. mosquitto, without a disk, is killed twice, and ten devices are killed and started again. theta must equal a
replay of the recorded reports, no person may be charged twice, and the accuracy must be within .03 of local_sgd's.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from edgeveil.edge_runtime.errors import LimitNotMet
from scripts.reproduce import record
from scripts.reproduce.dp import local_sgd
from tests.support import network_receivers
from tests.support.promised import fleet, gradient_examples

RESULT = Path("docs/results/dp/federated-devices.json")
ALPHA, STEP, ROUNDS, PEOPLE = 4.0, 2.0, 500, 7_000
BROKER_DIES, DEVICES_DIE = (0.25, 0.75), 0.5  # shares of the rounds
KILLED = 10
WAIT_S, LONGEST_S = 20.0, 3600.0
NEAR, SAME = 0.03, 1e-6


def memory_bytes(parents: list[int]) -> int:
    """What these processes and their children hold together; shared pages count once (proportional set size)."""
    children = Path("/proc/{0}/task/{0}/children")
    total = 0
    while parents:
        process = parents.pop()
        with contextlib.suppress(OSError):  # it ended meanwhile
            parents += map(int, Path(str(children).format(process)).read_text().split())
            rollup = Path(f"/proc/{process}/smaps_rollup").read_text()
            total += 1024 * int(rollup.split("\nPss:")[1].split()[0])
    return total


def rounds_done(journal: Path) -> int:
    """Closed rounds so far."""
    return journal.read_bytes().count(b'"closed"') if journal.exists() else 0


@contextlib.contextmanager
def running(devices: list[fleet.Device]) -> Iterator[None]:
    """All of them, started, and ended whatever happens."""
    try:
        for device in devices:
            device.start()
        yield
    finally:
        for device in devices:
            if device.process is not None and device.process.poll() is None:
                device.kill()


def train(folder: Path, devices: int, lot: int, rounds: int, rng: np.random.Generator) -> dict[str, Any]:
    """One training with its mishaps; what came of it."""
    bundle = gradient_examples.made(folder / "bundle", ALPHA)
    broker = network_receivers.Broker(folder)
    x, y = local_sgd.people(rounds * lot, rng)
    shares = np.array_split(np.column_stack([x, y]), devices)
    fleet_ = [fleet.Device(folder, bundle, broker.port, turn, share) for turn, share in enumerate(shares)]
    journal = folder / "journal"
    words = ("--rounds", rounds, "--devices", devices, "--lot", lot, "--step", STEP, "--wait", WAIT_S)
    began, peak, killed = time.monotonic(), 0, 0
    left = [*[(round(share * rounds), "broker") for share in BROKER_DIES], (round(DEVICES_DIE * rounds), "devices")]
    with running(fleet_):
        collector = fleet.federate(bundle, broker.port, journal, *words)
        try:
            while collector.poll() is None and time.monotonic() < began + LONGEST_S:
                done = rounds_done(journal)
                for mishap in [one for one in left if one[0] <= done]:
                    left.remove(mishap)
                    if mishap[1] == "broker":
                        broker.kill()
                        broker.start()
                        continue
                    killed = min(KILLED, devices)
                    for device in fleet_[:killed]:
                        device.kill()
                    for device in fleet_[:killed]:
                        device.start()
                alive = [one.process.pid for one in fleet_ if one.process is not None and one.process.poll() is None]
                peak = max(peak, memory_bytes([collector.pid, *alive]))
                time.sleep(1.0)
        finally:
            collector.kill()
            out, said = collector.communicate()
            broker.kill()
    if collector.returncode != 0:
        raise LimitNotMet(f"The training was to end; it ended with {collector.returncode} after {said[-300:]}")
    return {
        "document": json.loads(out),
        "journal": fleet.lines(journal),
        "ledgers": [device.ledger() for device in fleet_],
        "table": gradient_examples.table(gradient_examples.document(ALPHA)),
        "mishaps": {"broker_killed": len(BROKER_DIES), "devices_killed": killed, "not_come_to": len(left)},
        "minutes": (time.monotonic() - began) / 60,
        "peak_bytes": peak,
    }


def judged(found: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
    """The record of a training: what was to hold, and whether it did."""
    document, ledgers = found["document"], found["ledgers"]
    replay = fleet.replayed(found["journal"], found["table"], STEP, document["rounds"])
    off = max(
        float(np.abs(np.array(document[key]) - again).max())
        for key, again in zip(("theta", "mean_of_later_half"), replay, strict=True)
    )
    test_x, test_y = local_sgd.people(local_sgd.TEST, rng)
    accuracy = float(((test_x @ np.array(document["mean_of_later_half"]) > 0) == test_y).mean())
    rows = record.recorded(local_sgd.RESULT)["rows"]
    wanted = next(r for r in rows if (r["step"], r["alpha"], r["n"]) == (STEP, ALPHA, PEOPLE))["accuracy"]["estimate"]
    charged = [account.total for book in ledgers for account in book.accounts.values()]
    micro = round(ALPHA * 1e6)
    counted = document["reports"]["counted"]
    claims = {
        "theta_equals_replay": off <= SAME,
        "accuracy_near_local_sgd": abs(accuracy - wanted) <= NEAR,
        "nobody_charged_twice": set(charged) == {micro},
        "no_more_counted_than_charged": counted <= len(charged),
        "all_mishaps_came": found["mishaps"]["not_come_to"] == 0,
    }
    return {
        "devices": document["devices"],
        "processes": 2 * document["devices"],
        "lot": document["lot"],
        "rounds": document["rounds"],
        "step": STEP,
        "alpha": ALPHA,
        "people_charged": len(charged),
        "reports": document["reports"],
        "rounds_short": document["rounds_short"],
        **found["mishaps"],
        "theta": document["theta"],
        "mean_of_later_half": document["mean_of_later_half"],
        "off_replay": off,
        "accuracy": accuracy,
        "accuracy_of_local_sgd": wanted,
        "minutes": round(found["minutes"], 1),
        "peak_megabytes": round(found["peak_bytes"] / 1e6),
        "claims": claims,
    }


def main() -> int:
    """Train, judge and record."""
    script = record.Script(__file__, __doc__, "--devices 10 --lot 4 --rounds 20 --out trial.json", out=RESULT)
    script.add_argument("--devices", type=int, default=50, help="devices of two processes each (default: 50)")
    script.add_argument("--lot", type=int, default=14, help="devices that a round asks (default: 14)")
    script.add_argument("--rounds", type=int, default=ROUNDS, help=f"rounds of the training (default: {ROUNDS})")
    asked = script.parse_args()
    rng = np.random.default_rng(0)
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as name:
        found = train(Path(name), asked.devices, asked.lot, asked.rounds, rng)
    document = {**record.here(), "load": {"before": load, "after": os.getloadavg()[0]}, **judged(found, rng)}
    record.write(asked.out, script.made_by(asked), document)
    broken = [claim for claim, held in document["claims"].items() if not held]
    if broken:
        raise LimitNotMet(f"Not held: {', '.join(broken)}; see {asked.out}.")
    return 0


if __name__ == "__main__":
    record.run(main)
