"""What the scripts here have in common: a command line, a quiet machine to time on, and the record that they leave.

A record is one JSON file under docs/results. Its first key, ``made_by``, says which script made it, and with which
options where one run made all of it; docs/results and tests/scripts/test_records.py rely on that.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shlex
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from edgeveil.devices import compare as idle
from edgeveil.edge_runtime import machine
from edgeveil.edge_runtime.bench.protocol import MOST_LOAD
from edgeveil.edge_runtime.errors import BadInput, EdgeVeilError
from edgeveil.edge_runtime.util.atomic import write_atomic

ROOT = Path(__file__).resolve().parents[1]
RESULTS = Path("docs/results")
NOT_COMPARED = ("made_by", "versions", "machine", "load", "python", "wall_s", "seconds")


class Script(argparse.ArgumentParser):
    """The command line of the script ``file``, with ``python -m`` and its own name in the help.

    ``example``: arguments for the help's example. ``out``: where the record goes, if --out may say otherwise.
    ``timing``: add --anyway, for ``watch``. ``check``: add --check, for ``compare``.
    """

    def __init__(
        self,
        file: str,
        text: str | None,
        example: str = "",
        *,
        out: Path | None = None,
        timing: bool = False,
        check: bool = False,
    ) -> None:
        path = Path(file).resolve().relative_to(ROOT)
        self.path = path.as_posix()
        command = f"python -m {'.'.join(path.with_suffix('').parts)}"
        how = argparse.RawDescriptionHelpFormatter
        note = f"Example: {command} {example}".rstrip()
        super().__init__(prog=command, description=text, epilog=note, formatter_class=how)
        if out:
            self.add_argument("--out", type=Path, default=out, help=f"the record (default: {out})")
        if timing:
            note = "time on a busy machine too; the record is INVALID then"
            self.add_argument("--anyway", action="store_true", help=note)
        if check:
            self.add_argument("--check", action="store_true", help="compare with the record instead of writing it")

    def made_by(self, asked: argparse.Namespace) -> str:
        """The script and what it was asked for: options that are not at their defaults; folders and files left out."""
        words = [self.path]
        for action in self._actions:
            value = getattr(asked, action.dest, None)
            if action.type is Path or value in (None, action.default) or action.dest in ("anyway", "check", "help"):
                continue
            words += action.option_strings[-1:]
            if value is not True:
                words += map(str, value if isinstance(value, list) else [value])
        return shlex.join(words)


def run(main: Callable[[], int | None]) -> NoReturn:
    """Run a script and end with its exit code; an error raised on purpose is its sentence and its own code."""
    try:
        sys.exit(main())
    except EdgeVeilError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(130)


def here() -> dict[str, Any]:
    """``versions`` of what numbers depend on, and the ``machine`` in general terms."""
    from edgeveil.trainer.audit.document import environment

    versions, machine = environment()
    return {"versions": versions, "machine": machine}


def wait(
    most_s: float = 180.0,
    *,
    look_s: float = 2.0,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
    load: Callable[[], float | None] = machine.load,
    watch: Callable[[], idle.Watch] = idle.Watch,
) -> str | None:
    """Wait until nothing else runs and the load is low, ``most_s`` at most. Returns None, or the remaining problem.

    Prints on stderr that it waits.
    """
    end, reported = clock() + most_s, False
    while True:
        looking = watch()
        sleep(look_s)
        others, runnable = looking.use().others, load()
        problem = None
        if others is not None and others > idle.MOST_OTHERS:
            problem = f"others use {others:.2f} cores of this machine ({idle.MOST_OTHERS:g} at most were expected)"
        elif runnable is not None and runnable > MOST_LOAD * (os.cpu_count() or 1):
            problem = f"the load of this machine is {runnable:.1f} ({MOST_LOAD:g} a core at most were expected)"
        if problem is None or clock() >= end:
            return problem
        if not reported:
            print(f"waiting for up to {most_s:.0f} s: {problem}", file=sys.stderr)
            reported = True


def begin(*, anyway: bool) -> None:
    """Wait before a measurement; exit with code 3 if the machine stays busy, unless ``anyway``."""
    problem = None if anyway else wait()
    if problem:
        print(f"error: {problem}; end what else runs, or use --anyway", file=sys.stderr)
        raise SystemExit(3)


def watch(asked: argparse.Namespace) -> idle.Watch:
    """Wait until nothing else runs here; ends the script with 3 where it does, unless --anyway was given."""
    begin(anyway=asked.anyway)
    return idle.Watch()


def verdict(use: idle.Use, others: Sequence[str] = ()) -> dict[str, Any]:
    """Whether what was timed may be quoted, ``reasons`` why not (``others`` among them), and the use of the cores."""
    reasons = [*use.reasons(), *others]
    return {"verdict": "INVALID" if reasons else "VALID", "reasons": reasons, "use": use.document()}


def end_turns(
    script: Script, options: argparse.Namespace, watch: idle.Watch, rows: Sequence[Mapping[str, Any]], most: float
) -> int:
    """Record ``rows`` of things that were timed in turns; 3 where the machine was busy, or a quotient is further than
    ``most`` from 1, else 0."""
    judged = verdict(watch.use())
    facts = {"turns": options.turns, "seconds_a_turn": options.seconds, **judged, "rows": rows, **here()}
    write(options.out, script.made_by(options), facts)
    print(judged["verdict"], *judged["reasons"])
    return 0 if not judged["reasons"] and all(abs(row["quotient"] - 1) <= most for row in rows) else 3


def read(path: Path) -> dict[str, Any]:
    """A record, or nothing where there is none yet."""
    return json.loads(path.read_text()) if path.is_file() else {}


def write(path: Path, made_by: str, document: Mapping[str, Any]) -> None:
    """The record, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    whole = {"made_by": made_by, **{key: value for key, value in document.items() if key != "made_by"}}
    write_atomic(str(path), (json.dumps(whole, indent=1, allow_nan=False, default=float) + "\n").encode())


def kept(path: Path, make: Callable[[], Any]) -> Any:
    """What ``make`` finds (JSON values), from the file ``path`` where an earlier run got as far."""
    if not path.is_file():
        encoded = json.dumps(make(), default=float).encode()
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(str(path), encoded)
    return json.loads(path.read_text())


def compare(path: Path, differences: Sequence[str]) -> int:
    """Say in what a new run differs from the record; 0 where in nothing, else 3."""
    for one in differences:
        print(f"{path}: {one}", file=sys.stderr)
    print(f"{path}: {f'{len(differences)} differences' if differences else 'equal'}")
    return 3 if differences else 0


def recorded(path: Path) -> dict[str, Any]:
    """A record to compare with. Raises ``BadInput`` where there is none."""
    if not path.is_file():
        raise BadInput(f"{path} was expected, to compare with; record it first, without --check.")
    return read(path)


def differences(old: Any, new: Any, *, relative: float = 0.0, absolute: float = 0.0, at: str = "") -> Iterator[str]:
    """Where two documents differ: numbers by more than both tolerances, anything else at all.

    When, where and with what they were made (``NOT_COMPARED``) may differ.
    """
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in [*old, *(key for key in new if key not in old)]:
            if key not in NOT_COMPARED:
                yield from differences(
                    old.get(key), new.get(key), relative=relative, absolute=absolute, at=f"{at}.{key}"
                )
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for number, pair in enumerate(zip(old, new, strict=True)):
            yield from differences(*pair, relative=relative, absolute=absolute, at=f"{at}[{number}]")
    elif isinstance(old, int | float) and isinstance(new, int | float):
        if not math.isclose(old, new, rel_tol=relative, abs_tol=absolute):
            yield f"{at[1:]} was {old:g}, now {new:g}"
    elif old != new:
        yield f"{at[1:]} was {old!r}, now {new!r}"
