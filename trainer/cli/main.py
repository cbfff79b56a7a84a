"""The ``edgeveil`` command: parse, call, print.

Progress and prose go to stderr; ``--json`` puts exactly one document on stdout.
"""

from __future__ import annotations

import io
import sys
from typing import Annotated

import typer
from typer.exceptions import TyperException

from edgeveil.edge_runtime import __version__
from edgeveil.edge_runtime.errors import EdgeVeilError
from edgeveil.edge_runtime.util.atomic import flush_output
from edgeveil.trainer.cli import (  # noqa: F401 - each adds its verbs to the tree
    audit_command,
    bench_command,
    boards,
    bundle_command,
    collect_command,
    cost_command,
    doctor,
    fleet,
    key_command,
    pseudonym_command,
    publish_command,
    recipes,
    runs_command,
    training,
    trust,
)
from edgeveil.trainer.cli.tree import app
from edgeveil.trainer.progress import say
from edgeveil.trainer.tensorflow_quiet import quiet_process


def _version(asked: bool) -> None:
    if asked:
        print(f"edgeveil {__version__}")
        raise typer.Exit


@app.callback()
def _edgeveil(
    _: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and end.")
    ] = False,
) -> None:
    """Train, audit, sign and run perturbers that keep the answer and hide the person."""


def main() -> None:
    """Run the command line; every expected failure is one line on stderr and its exit code."""
    quiet_process()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a path need not be text in its encoding
    try:
        code = app(standalone_mode=False)
    except EdgeVeilError as error:
        say(f"error: {error}")
        code = error.exit_code
    except typer.Abort:
        say("Interrupted.")
        code = 130
    except KeyboardInterrupt:
        say("Interrupted.")
        code = 130
    except BrokenPipeError:
        code = 0
    except TyperException as error:  # a wrong option or argument: usage, what was wrong, how to get help
        error.show()  # type: ignore[attr-defined]
        code = error.exit_code
    sys.exit(flush_output(code or 0))


if __name__ == "__main__":
    main()
