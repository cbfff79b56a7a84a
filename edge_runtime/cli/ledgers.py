"""``edgeveil-edge ledger``: make an empty ledger, or show what this device spent."""

import argparse
import sys
from typing import Any, Iterator

from edgeveil.edge_runtime import ext
from edgeveil.edge_runtime.cli.options import Document, add_command, add_json, print_document
from edgeveil.edge_runtime.paths import LEDGER

_MICRO = 1e6


def add_commands(commands: Any) -> None:
    """Add them to the parser of ``edgeveil-edge``."""
    ledger = add_command(
        commands,
        "ledger",
        _show,
        "the file in which this device counts what its releases tell: make an empty one, or show it",
        "edgeveil-edge ledger new ledger\n  edgeveil-edge ledger show ledger",
    )
    actions = ledger.add_subparsers(dest="action", metavar="ACTION")
    actions.required = True
    new = add_command(actions, "new", _new, "make an empty ledger for this machine", "edgeveil-edge ledger new ledger")
    show = add_command(actions, "show", _show, "show what was spent", "edgeveil-edge ledger show ledger")
    for action in (new, show):
        action.add_argument("file", metavar="FILE", nargs="?", default=LEDGER, help="the ledger ({})".format(LEDGER))
    add_json(show)


def _new(arguments: argparse.Namespace) -> None:
    ext.book.create(arguments.file)
    sys.stdout.write("made {}\n".format(arguments.file))


def _show(arguments: argparse.Namespace) -> None:
    from edgeveil.edge_runtime.machine import uptime

    of = ext.book
    book = of.Ledger(arguments.file).book().counted(*uptime())
    device = book.accounts.get(of.DEVICE, of.Account())
    subjects = [account.total for name, account in book.accounts.items() if name != of.DEVICE]
    document = {
        "schema": 1,
        "lifetime_epsilon": book.lifetime / _MICRO,
        "device_epsilon": device.total / _MICRO,
        "subjects": len(subjects),
        "most_of_a_subject_epsilon": max(subjects, default=0) / _MICRO,
        "writes": book.number,
        "on_s": book.on_s,
        "periods": [
            {"period_s": float(length), "age_s": book.on_s - begin, "epsilon": spent / _MICRO}
            for length, (begin, spent) in sorted(device.periods.items())
        ],
    }
    print_document(document, _lines, as_json=arguments.json)


def _lines(document: Document) -> Iterator[str]:
    yield "spent since it was made: epsilon {lifetime_epsilon:g}, in {writes} charges".format(**document)
    yield "  as one unit: {device_epsilon:g}".format(**document)
    for period in document["periods"]:
        yield "    in the period of {period_s:g} s that began {age_s} s ago: {epsilon:g}".format(**period)
    yield "  of {subjects} subjects the most: {most_of_a_subject_epsilon:g}".format(**document)
    yield "the device was on for {on_s} s of that, by a clock that cannot be set".format(**document)
