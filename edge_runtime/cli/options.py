"""The options that several commands of ``edgeveil-edge`` share."""

import argparse
from typing import Any, Callable, Dict

from edgeveil.edge_runtime import config
from edgeveil.edge_runtime.cli.output import EXIT_CODES

Call = Callable[[argparse.Namespace], Any]


def add_command(commands: Any, name: str, call: Call, summary: str, example: str) -> argparse.ArgumentParser:
    """Add a command with its help page; ``call`` gets its arguments and returns an exit code or None."""
    command: argparse.ArgumentParser = commands.add_parser(
        name,
        help=summary,
        description=summary[0].upper() + summary[1:] + ".",
        epilog="example:\n  {}\n\n{}".format(example, EXIT_CODES),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.set_defaults(call=call)
    return command


def add_bundle(command: argparse.ArgumentParser, *, optional: bool = False) -> None:
    """The bundle and the keys to trust; ``optional`` if the configuration file may name them."""
    command.add_argument("bundle", metavar="BUNDLE", help="the .veil file", nargs="?" if optional else None)
    command.add_argument(
        "--trust", required=not optional, metavar="DIR", help="folder of public keys that may sign (*.pub)"
    )


def add_setting(command: argparse.ArgumentParser, name: str) -> None:
    """The flag of a setting; None if it is not given, so that the configuration file can give it."""
    setting = config.SETTINGS[name]
    options: Dict[str, Any] = {"default": None, "help": setting.help}
    if setting.kind is bool:
        options["action"] = "store_true"
    elif setting.kind is list:
        options.update(action="append", metavar=setting.metavar)
    else:
        options.update(type=setting.kind, metavar=setting.metavar)
    command.add_argument("--" + name, **options)


def add_json(command: argparse.ArgumentParser) -> None:
    """``--json``."""
    command.add_argument("--json", action="store_true", help="print one JSON document on stdout")
