"""``edgeveil-edge``: run, verify and bench a bundle on the board, and manage its releases and its ledger.

A command imports what it needs when it is called: the process with the network must not load the code that sees raw
frames, and the process with the raw frames must not load the code that sends.
"""

import argparse
import os
import sys
from typing import List, Optional

from edgeveil.edge_runtime import __version__, late_imports
from edgeveil.edge_runtime.cli import bundles, ledgers, options, record, releases, run, updaters
from edgeveil.edge_runtime.cli.options import EXIT_CODES
from edgeveil.edge_runtime.cli.updaters import hide_secrets
from edgeveil.edge_runtime.errors import BadInput, EdgeVeilError, PrivacyStop, describe, nearest, refused, shown
from edgeveil.edge_runtime.util.atomic import flush_output


def main(argv: Optional[List[str]] = None) -> int:
    """Run one command and return its exit code."""
    if argv is None and sys.getfilesystemencoding().lower() in ("ascii", "us-ascii") and UTF_8 not in os.environ:
        _start_in_utf_8()
    if argv is None:
        late_imports.one_thread()
    return flush_output(_run(argv), closed=4)


UTF_8 = "EDGEVEIL_STARTED_IN_UTF_8"


def _start_in_utf_8() -> None:
    """Start this command again where names may have any letter: Python 3.6 takes those of the C locale for ASCII.

    Later versions use UTF-8 there. Processes that this one starts inherit the locale.
    """
    os.environ.update({"LC_ALL": "C.UTF-8", UTF_8: "1"})
    with open("/proc/self/cmdline", "rb") as file:
        words = file.read().split(b"\0")[:-1]
    os.execv(sys.executable, words)  # noqa: S606 - itself


def _run(argv: Optional[List[str]]) -> int:
    try:
        gone = refused(sys.argv[1:] if argv is None else argv)
        if gone:
            raise BadInput("edgeveil-edge {}.".format(gone))
        parser = _parser()
        _check_verb(parser, sys.argv[1:] if argv is None else argv)
        arguments = parser.parse_args(argv)
        hide_secrets(getattr(arguments, "source", None), getattr(arguments, "sink", None) or [])
        return arguments.call(arguments) or 0
    except EdgeVeilError as error:
        sys.stderr.write("error: {}\n".format(shown(error)))
        return error.exit_code
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        return 130
    except BrokenPipeError:
        return 4  # the reader of standard output has closed it
    except Exception as error:
        # Its text could hold a value of a frame: print only its place in the code.
        sys.stderr.write("error: stopped by an unexpected {}; please report this line\n".format(describe(error)))
        return PrivacyStop.exit_code


def _check_verb(parser: argparse.ArgumentParser, words: List[str]) -> None:
    """Raise ``BadInput``, with the nearest one, for a command that there is not."""
    known = next(action.choices for action in parser._actions if action.choices is not None)
    if words and not words[0].startswith("-") and words[0] not in known:
        near = nearest(words[0], known)
        raise BadInput(
            "edgeveil-edge has no command {!r}{} edgeveil-edge --help shows its commands".format(
                words[0], "; did you mean {}?".format(near) if near else "."
            )
        )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="edgeveil-edge", description="Perturb frames on the device, with a signed bundle.", epilog=EXIT_CODES
    )
    parser.add_argument("--version", action="version", version="edgeveil-edge " + __version__)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    commands.required = True
    run.add_commands(commands)
    options.add_commands(commands)
    bundles.add_commands(commands)
    record.add_commands(commands)
    releases.add_commands(commands)
    ledgers.add_commands(commands)
    updaters.add_commands(commands)
    return parser
