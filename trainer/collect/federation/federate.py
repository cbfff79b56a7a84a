"""A model from private gradients: rounds out, reports in, each device's once a round, and a step down their mean.

What a device sends is private by itself, so nothing here needs to be trusted with a reading; that no person is asked
twice is kept by the ledger of each device. Every theta is made of earlier reports alone (sequential interaction).
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from edgeveil.edge_runtime.bundle.reader import Bundle
from edgeveil.edge_runtime.errors import BadInput, DeviceFailed
from edgeveil.edge_runtime.ipc.rounds import Round, RoundFormat
from edgeveil.edge_runtime.manifest.manifest import Stage
from edgeveil.trainer.collect.federation.descent import Descent
from edgeveil.trainer.collect.federation.exchange import Message
from edgeveil.trainer.collect.federation.training_journal import Journal, Plan
from edgeveil.trainer.collect.feeds.records import Records
from edgeveil.trainer.collect.reporting import Reporting

PATIENCE = 3  # waits in a row without any report that end a training


class Devices(Protocol):
    """What stands between a training and its devices; ``Exchange`` is one."""

    def publish(self, model: bytes) -> None:
        """Ask for reports of this round."""
        ...

    def next(self, timeout_s: float) -> Message | None:
        """What a device sent, or None after that time."""
        ...


class Gate:
    """Lets a report of the open round through, the first of each device. ``refused`` counts the others by reason."""

    def __init__(self, bundle: Bundle, reporting: Reporting, run: int) -> None:
        self._records, self._decoder = Records(bundle.manifest, reporting.output), reporting.decoder
        self._run = run
        self.refused: Counter[str] = Counter()

    def passed(self, message: Message, number: int, answers: dict[str, Any]) -> np.ndarray | None:
        """The report, or None where it is refused. ``answers`` are the devices that were counted in this round."""
        reason, report = self._judged(message, number, answers)
        if reason:
            self.refused[reason] += 1
        return report

    def _judged(self, message: Message, number: int, answers: dict[str, Any]) -> tuple[str, np.ndarray | None]:
        if not self._records.mine(message.payload):
            return "of another format", None
        block = self._records.block([message.payload])
        run, of_round = divmod(int(block.round[0]), 2**32)
        if run != self._run:
            return "of another run", None
        if of_round != number:
            return "late" if of_round < number else "of a round to come", None
        if message.device in answers:
            return "second of its round", None
        if block.slot[0] != 0 or not self._decoder.made(block.reports)[0]:
            return "outside the alphabet", None
        return "", block.reports[0]


def gradient_of(bundle: Bundle) -> tuple[Stage, RoundFormat]:
    """The gradient stage of a bundle and the format of its rounds. Raises ``BadInput`` where it has none."""
    form = RoundFormat.of(bundle.manifest)
    if form is None:
        raise BadInput(
            f"A bundle that reports gradients was expected; {bundle.manifest.name} reports none. Train a recipe with "
            '`perturber.of = "gradient"`, or estimate what these devices report with edgeveil collect.'
        )
    return next(stage for stage in bundle.manifest.stages if stage.stage == "gradient"), form


def checked(plan: Plan) -> Plan:
    """The plan. Raises ``BadInput`` for one that makes no sense."""
    if plan.devices < 2:
        raise BadInput(f"--devices: expected 2 or more, for one alone hides in nobody's mean; got {plan.devices}.")
    if not 1 <= plan.lot <= plan.devices:
        raise BadInput(f"--lot: expected 1 to {plan.devices}, the number of devices; got {plan.lot}.")
    return plan


def federate(
    bundle: Bundle,
    reporting: Reporting,
    devices: Devices,
    journal: Journal,
    plan: Plan,
    *,
    wait_s: float,
    say: Callable[[str], None],
    advance: Callable[..., None] = lambda **_: None,
    clock: Callable[[], float] = time.monotonic,
) -> dict[str, Any]:
    """Train for the rounds that ``journal`` has not closed yet; the result as a document.

    A round is closed when its whole lot has reported, or after ``wait_s`` seconds; without any report it leaves theta
    as it was. ``advance`` is called after each round with figures to show, ``say`` where nobody answers. Raises
    ``DeviceFailed`` where nobody answers ``PATIENCE`` times in a row.
    """
    stage, form = gradient_of(bundle)
    most = next(one.most for one in bundle.manifest.stages if one.stage == "parameters")
    descent = Descent(reporting.decoder.width, rounds=plan.rounds, step=plan.step, most=most)
    for answers in journal.closed:
        descent.take(_gradients(reporting, answers))
    gate = Gate(bundle, reporting, journal.run)
    silent = 0
    while descent.done < plan.rounds:
        number = descent.done + 1
        theta = descent.theta.astype(np.float32)
        devices.publish(form.pack(Round(journal.run, number, plan.lot, plan.devices, theta)))
        until = clock() + wait_s
        while len(journal.answers) < plan.lot:
            message = devices.next(min(until - clock(), 1.0))
            if message is not None:
                report = gate.passed(message, number, journal.answers)
                if report is not None:
                    journal.count(message.device, report)
            elif clock() >= until:
                if journal.answers:
                    break
                silent += 1
                problem = f"Nobody answered in round {number} for {wait_s:g} s"
                if silent == PATIENCE:
                    raise DeviceFailed(
                        f"{problem}, {PATIENCE} waits in a row. See that devices run, with this bundle, and have "
                        "people left that were not asked yet; then repeat the command, which goes on from its --state "
                        "FILE."
                    )
                if any(journal.closed):
                    # This lot is off, or its reports died with the broker. Nobody reports twice in a round.
                    say(f"{problem}: the next devices are asked.")
                    break
                say(f"{problem}: do the devices run, with this bundle?")
                until = clock() + wait_s
        answers = journal.close_round()
        if answers:
            silent = 0
        descent.take(_gradients(reporting, answers))
        advance(reports=len(answers), refused=gate.refused.total())
    return _document(bundle, reporting, stage, journal, plan, descent, gate)


def _gradients(reporting: Reporting, answers: dict[str, list[float]]) -> np.ndarray:
    """Unbiased gradients float64 (n, d) of a round's reports."""
    if not answers:
        return np.zeros((0, reporting.decoder.width))
    return reporting.decoder.values(np.array([*answers.values()]))


def _document(
    bundle: Bundle, reporting: Reporting, stage: Stage, journal: Journal, plan: Plan, descent: Descent, gate: Gate
) -> dict[str, Any]:
    counted = [len(answers) for answers in journal.closed]
    estimate = descent.estimate()
    return {
        "schema": 1,
        "kind": "edgeveil-federation",
        "bundle": {"name": bundle.manifest.name, "manifest_sha256": bundle.manifest_sha256},
        "mechanism": reporting.op,
        "epsilon": reporting.spending.micro_epsilon / 1e6,
        "unit": reporting.spending.unit,
        "loss": stage.loss,
        "clip": stage.clip,
        "run": journal.run,
        **plan._asdict(),
        "theta": descent.theta.tolist(),
        "mean_of_later_half": None if estimate is None else estimate.tolist(),
        "reports": {"counted": sum(counted), "refused": dict(sorted(gate.refused.items()))},
        "rounds_short": sum(count < plan.lot for count in counted),
        "devices_heard": len({device for answers in journal.closed for device in answers}),
    }
