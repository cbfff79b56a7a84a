"""The boards of ``boards.toml`` at once: a roll-out, one alone, then several at a time; their state; a rollback."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from edgeveil.devices import profiles
from edgeveil.devices.flashing import sd_card
from edgeveil.devices.flashing.board import Board, runtime_output
from edgeveil.devices.flashing.flash import flash_target
from edgeveil.devices.site import Site, SiteBoard
from edgeveil.edge_runtime.errors import BadInput, DeviceFailed, EdgeVeilError, LimitNotMet, reason
from edgeveil.edge_runtime.ext.ledger.book import board_total_text
from edgeveil.edge_runtime.util.atomic import write_atomic

WAITING, IN_PROGRESS = "waiting", "in progress"
DONE, ALREADY, WOULD = "done", "already", "would"  # success; nothing to do; a dry run
REFUSED, FAILED, NOT_TRIED = "refused", "failed", "not tried"
NOT_WELL = "not well"  # the board answers, and its service does not run as it should
WELL = (DONE, ALREADY, WOULD)
UNSAID = "unsaid"


@dataclass(frozen=True)
class Outcome:
    """The result for one board, as a word and as a sentence."""

    board: str
    state: str
    said: str
    seconds: float = 0.0


Tell = Callable[[str, str, str], None]  # (board, state, text): the live row of a board
Work = Callable[[SiteBoard, Callable[[str], None]], tuple[str, str]]


def roll_out(
    boards: Sequence[SiteBoard],
    work: Work,
    *,
    parallel: int,
    most_failures: int,
    canary: bool = True,
    tell: Tell = lambda *_: None,
    keep: Callable[[Outcome], None] = lambda _: None,
) -> list[Outcome]:
    """Do ``work(board, say)``, which returns a state and a sentence, on every board; outcomes in the boards' order.

    With ``canary`` the first board goes alone, and where it fails no other is tried. Then ``parallel`` go at a time;
    once more than ``most_failures`` have failed, no other is started, and the running ones finish. ``keep`` is called
    with each outcome, one at a time. Ctrl-C starts no other, waits for the running ones and is then raised.
    """
    run = _Run(boards, work, tell, keep)
    first = run.next(0) if canary else None
    if first is not None:
        run.stop = not run.run_board(first)
    ended = [threading.Event() for _ in range(parallel)]
    for event in ended:
        threading.Thread(target=run.run_queue, args=(most_failures, event), daemon=True).start()
    interrupted = False
    for event in ended:
        # Not by join(): an interrupted join takes its thread for one that has ended.
        while not event.is_set():
            try:
                event.wait(0.2)
            except KeyboardInterrupt:
                if interrupted:
                    raise
                interrupted = run.stop = True
    if run.broken is not None:
        raise run.broken
    if interrupted:
        raise KeyboardInterrupt
    left = [board for board in boards if board.name not in run.outcomes]
    for board in left:
        run.outcomes[board.name] = Outcome(board.name, NOT_TRIED, "too many others failed before its turn")
        tell(board.name, NOT_TRIED, run.outcomes[board.name].said)
    return [run.outcomes[board.name] for board in boards]


def exit_code(outcomes: Sequence[Outcome]) -> int:
    """0 if all succeeded; 4 if a board or its connection failed; 2 if boards refused; 3 if a service is not well."""
    states = {outcome.state for outcome in outcomes}
    codes = {FAILED: DeviceFailed.exit_code, REFUSED: BadInput.exit_code, NOT_WELL: LimitNotMet.exit_code}
    return next((code for state, code in codes.items() if state in states), 0)


class _Run:
    """The state that the threads share."""

    def __init__(self, boards: Sequence[SiteBoard], work: Work, tell: Tell, keep: Callable[[Outcome], None]) -> None:
        self.outcomes: dict[str, Outcome] = {}
        self.stop = False
        self.broken: BaseException | None = None
        self._queue, self._work, self._tell, self._keep = list(boards), work, tell, keep
        self._lock = threading.Lock()

    def next(self, most_failures: int) -> SiteBoard | None:
        """The next board; None if there is none, or if too many have failed."""
        with self._lock:
            failed = sum(outcome.state not in WELL for outcome in self.outcomes.values())
            self.stop = self.stop or failed > most_failures
            return None if self.stop or not self._queue else self._queue.pop(0)

    def run_queue(self, most_failures: int, ended: threading.Event) -> None:
        """Boards one after another, as long as ``next`` gives any; then ``ended`` is set."""
        try:
            while (board := self.next(most_failures)) is not None:
                self.run_board(board)
        except BaseException as error:  # a bug: nothing else is started, and the caller gets it
            self.broken, self.stop = error, True
        finally:
            ended.set()

    def run_board(self, board: SiteBoard) -> bool:
        """Do the work on a board; returns whether it succeeded."""
        begin = time.monotonic()
        self._tell(board.name, IN_PROGRESS, "begins")
        try:
            state, message = self._work(board, lambda text: self._tell(board.name, IN_PROGRESS, text))
        except EdgeVeilError as error:
            state, message = (FAILED if isinstance(error, DeviceFailed) else REFUSED), str(error)
        outcome = Outcome(board.name, state, message, round(time.monotonic() - begin, 1))
        with self._lock:
            self.outcomes[board.name] = outcome
            self._keep(outcome)
        self._tell(board.name, state, message)
        return state in WELL


Say = Callable[[str], None]
_KEYS = {"schema", "release", "boards"}


@dataclass
class Record:
    """The last roll-out of a fleet: the release's manifest hash, and the outcome of each board so far.

    What a board runs is always asked of the board itself. This file decides which boards come first when a roll-out is
    resumed, and which release a rollback takes back.
    """

    path: Path
    release: str | None = None
    boards: dict[str, dict[str, Any]] = field(default_factory=dict)

    @classmethod
    def open(cls, fleet: Path) -> Record:
        """The record next to a fleet's file. Raises ``BadInput`` for an invalid one."""
        path = fleet.with_suffix(".state.json")
        try:
            document = json.loads(path.read_bytes())
            if set(document) != _KEYS or document["schema"] != 1 or not isinstance(document["boards"], dict):
                raise ValueError("other keys")
        except FileNotFoundError:
            return cls(path)
        except (OSError, ValueError, TypeError) as error:
            raise BadInput(
                f"{path} is not a record of a roll-out ({reason(error)}). Remove it: the boards are asked again."
            ) from None
        return cls(path, document["release"], document["boards"])

    def begin(self, release: str) -> None:
        """Start a release: a new one has no outcomes yet."""
        if release != self.release:
            self.release, self.boards = release, {}
            self._write()

    def keep(self, outcome: Outcome) -> None:
        """Record a board's outcome, on the disk."""
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        self.boards[outcome.board] = {"state": outcome.state, "said": outcome.said, "at": now}
        self._write()

    def ordered(self, boards: Sequence[SiteBoard]) -> list[SiteBoard]:
        """The canary, then the boards that failed or are open, then those that are done."""
        first, *rest = boards
        return [first, *sorted(rest, key=lambda board: self.boards.get(board.name, {}).get("state") in WELL)]

    def _write(self) -> None:
        document = {"schema": 1, "release": self.release, "boards": self.boards}
        write_atomic(str(self.path), (json.dumps(document, indent=1, sort_keys=True) + "\n").encode())


def flash_work(
    bundle: Path, *, again: bool, accept_leak: bool, dry_run: bool
) -> Callable[[SiteBoard, Say], tuple[str, str]]:
    """Work that installs ``bundle`` on a board; ``accept_leak`` is for boards whose file does not have it."""

    def work(board: SiteBoard, say: Say) -> tuple[str, str]:
        last = time.monotonic()

        def progress(sent: int, total: int) -> None:
            nonlocal last
            if time.monotonic() - last > 0.5:
                last = time.monotonic()
                say(f"sends {sent / 2**20:.1f} of {total / 2**20:.1f} MB")

        done = flash_target(
            bundle,
            board.address,
            board.connection,
            profiles.load(board.require("profile"), commands=board.allow_commands),
            trust=board.require("trust"),
            wanted=replace(board.wanted, again=again, accept_leak=accept_leak or board.wanted.accept_leak),
            wheels=board.wheels,
            source_credentials=board.source_credentials,
            setup=board.setup,
            dry_run=dry_run,
            show=lambda text: say(text.strip().splitlines()[-1] if text.strip() else ""),
            progress=progress,
        )
        if not done.plan.steps:
            return ALREADY, f"already runs {done.sha:.12}"
        if dry_run:
            return WOULD, f"would {', '.join(step.kind for step in done.plan.steps)}: {done.plan.size} bytes"
        new = f"; trusts the root key {done.root_key:.16}... from now on" if done.root_key else ""
        refused = "".join(f"; {one}" for one in done.refused)
        return DONE, f"runs {done.sha:.12} on {done.plan.artefact}{new}{refused}"

    return work


def read_status(board: SiteBoard, say: Say) -> tuple[str, str]:
    """Work that asks a board what it runs, and whether its service does."""
    with open_board(board, say) as opened:
        status = _status(opened)
        ill = not_well(opened, status["service"])
    failed = f"; the last trial failed: {status['reason']}" if status["failed"] else ""
    text = f"runs {status['name']} {status['committed']!s:.12}, floor {status['floor']}{index_text(status['index'])}"
    text += status["spent"] + clock_text(status["clock"]) + figures_text(service_figures(status["service"]))
    text += receivers_text(status["service"])
    return (NOT_WELL, f"{ill}; {text}{failed}") if ill else (DONE, text + failed)


FIGURES = ("frames_out", "dropped", "tick_s", "fresh_age_s", "temperature_c", "throttled", "receivers_away")


def service_figures(service: Any) -> dict[str, float]:
    """The figures that the service of a board gives of itself; none of an earlier runtime, which has none."""
    figures = service.get("figures") if isinstance(service, Mapping) else None
    known = figures if isinstance(figures, Mapping) else {}
    return {name: float(known[name]) for name in FIGURES if isinstance(known.get(name), int | float)}


def figures_text(figures: Mapping[str, float]) -> str:
    """Frames, drops and temperature, as a row of a table has them."""
    shown = (
        ("frames_out", "{:,.0f} frames sent"),
        ("dropped", "{:,.0f} dropped"),
        ("temperature_c", "{:.0f} \N{DEGREE SIGN}C"),
    )
    text = "".join(f", {form.format(figures[name])}" for name, form in shown if name in figures)
    away = figures.get("receivers_away")
    return text + (f", receivers not connected: {away:.0f}" if away else "")


def receivers_text(service: Any) -> str:
    """The receivers of a board's service that do not take its records, with the reason and what to do."""
    found = service.get("receivers") if isinstance(service, Mapping) else None
    known = found if isinstance(found, Mapping) else {}
    return "".join(f"; {name}: {said}" for name, said in sorted(known.items()) if said != "ok")


def status_rows(site: Site) -> list[dict[str, Any]]:
    """What each board runs and how its service does, asked of several at a time: ``board``, ``state`` and ``said`` as
    of ``read_status``, and where it answered ``name``, ``release``, ``at`` (seconds since 1970) and its figures."""
    answered: dict[str, dict[str, Any]] = {}

    def work(board: SiteBoard, say: Say) -> tuple[str, str]:
        with open_board(board, say) as opened:
            status = _status(opened)
            ill = not_well(opened, status["service"])
        facts = {"name": status["name"], "release": status["committed"], "at": round(time.time(), 2)}
        answered[board.name] = {**facts, **service_figures(status["service"])}
        return (
            (NOT_WELL, ill) if ill else (DONE, f"the last trial failed: {status['reason']}" if status["failed"] else "")
        )

    outcomes = roll_out(site.boards, work, parallel=site.parallel, most_failures=len(site.boards), canary=False)
    return [{**vars(one), **answered.get(one.board, {})} for one in outcomes]


def not_well(board: Board, service: Any) -> str:
    """What is wrong with the service of a board, by its own status; empty where nothing is, or there is none.

    ``service`` is that of its runtime's document, or ``UNSAID`` of an earlier one, which does not report it: then
    systemd alone is asked.
    """
    if service == UNSAID:
        if not board.has_service():
            return ""
        service = {"units": board.unit_states(), "ready": None}
    if service is None:
        return ""
    try:
        ill = [f"{unit} is {state}" for unit, state in sorted(service["units"].items()) if state != "active"]
        ready = service["ready"]
    except (TypeError, KeyError, AttributeError):
        return "its status of the service is in a form that this version cannot read"
    return ", ".join([*ill, *([f"/readyz: {ready}"] if ready not in (None, "ok") else [])])


def index_text(index: Mapping[str, Any] | None) -> str:
    """How old a board's update index is: one that grows old everywhere, or on one board alone, may be a freeze."""
    if index is None:
        return ""  # a board that is not updated by an index, or a runtime that says nothing of it
    days = index["age_s"] // 86400
    return f", index {index['version']} since {days} days" if index["name"] else f", no index for {days} days"


def clock_text(clock: str | None) -> str:
    """That a board's times are not to be relied on; empty where its clock is synchronised, or was not reported."""
    return "" if clock in (None, "synchronised") else f", clock {clock}"


def spent_text(spent: Mapping[str, Any] | None) -> str:
    """What all services of a board told of one person, where any counts it."""
    return f", {board_total_text(dict(spent))}" if spent and spent["services"] else ""


def rollback_work(release: str) -> Callable[[SiteBoard, Say], tuple[str, str]]:
    """Work that rolls back a board that runs ``release``; other boards are left alone."""

    def work(board: SiteBoard, say: Say) -> tuple[str, str]:
        with open_board(board, say) as opened:
            status = _status(opened)
            if status["committed"] != release:
                return ALREADY, f"does not run {release:.12}, but {status['committed']!s:.12}; left alone"
            return DONE, opened.rollback()

    return work


def open_board(board: SiteBoard, say: Say) -> Board:
    """The board, reached over its connection. Raises ``BadInput`` for a card, and what the connection raises."""
    if board.address.startswith(sd_card.KINDS):
        raise BadInput(f"{board.address} is a card, which can only be flashed. Use its board's address once it runs.")
    return board.open(say)


def board_document(board: Board) -> dict[str, Any]:
    """The document that the runtime of a board prints of itself. Raises its own error, or ``DeviceFailed``."""
    printed = runtime_output(board.edge("status", "--root", board.root, "--json"))
    try:
        document = json.loads(printed)
    except ValueError:
        document = None
    if not isinstance(document, dict):
        raise DeviceFailed(f"{board.transport.name} did not answer with its status. Flash it again.")
    return document


def _status(board: Board) -> Mapping[str, Any]:
    document = board_document(board)
    try:
        index = document.get("index")
        # Older runtimes do not report the index age.
        aged = index if isinstance(index, dict) and isinstance(index.get("age_s"), int) else None
        # An older one said nothing of what was spent.
        fields = {key: document[key] for key in ("name", "committed", "floor", "failed", "reason")}
        service = document.get("service", UNSAID)
        clock = document.get("clock")  # nor the clock
        return {**fields, "clock": clock, "index": aged, "spent": spent_text(document.get("spent")), "service": service}
    except (ValueError, LookupError, TypeError):
        raise DeviceFailed(f"{board.transport.name} did not answer with its status. Flash it again.") from None
