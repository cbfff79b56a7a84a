"""The command tree: groups with their panels of help, what is of every verb, and the spellings of earlier versions.

``edgeveil`` loads no rich for its help: the panels are written by ``Commands`` itself.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.progress import say

HELP = ["-h", "--help"]
# The panels of `edgeveil --help`, in their order there.
PANELS = MAKE, SHIP, BOARDS, TRUST, PUBLISH, HERE = (
    "Train and measure",
    "Export, sign and look at bundles",
    "Boards",
    "Keys and trust",
    "Private reports and publications",
    "This machine",
)

# Spellings of earlier versions: they work with a warning for one version, then they go to GONE.
LAST = "0.3"  # the version that refuses them
# Commands; each {} stands for the next word.
MOVED = {
    "keygen": "key new",
    "sweep": "run sweep",
    "runs": "run",
    "report": "run report",
    "freeze": "bundle samples",
    "card": "bundle card",
    "cost": "bundle cost",
    "estimate": "board estimate",
    "wheels": "board wheels",
    "status": "board status",
    "rollback": "board rollback",
    "logs": "board logs",
    "start": "board start",
    "stop": "board stop",
    "releases": "board releases",
    "devices": "board",
    "devices probe": "board probe --json",
    "index": "update index",
    "runtime": "update runtime",
    "collect": "local collect",
    "data look": "data inspect",
    "trust upgrade": "trust set {} --upgrade",
    "trust require": "trust set {} require={}",
    "trust reset-floor": "trust set {} floor={}",
    "trust policy": "trust set {} policy={}",
}
CAMERA = {"capture": "frame", "size": "size", "crop": "crop"}
SERIES = ("rate", "channels", "window", "hop", "time")
# Options, of a command or of all: the new command, where it changes too, and the new option, or none. {} stands for
# the value where it is not the next word; name={} without dashes is a word, NAME={} a variable of the environment.
MOVED_OPTIONS = {
    "audit --verify": ("audit verify", ""),
    "audit --sign": ("audit sign", "--key"),
    "audit --on": ("audit board", "--on"),
    "audit --before": ("audit pairs", ""),
    "audit --after": ("audit pairs", ""),
    "audit --resume": ("", ""),
    "export --resume": ("", ""),
    "publish archive --resume": ("", ""),
    "export --compiler-python": ("", "EDGEVEIL_COMPILER_PYTHON={}"),
    "board wheels --find-links": ("", "EDGEVEIL_FIND_LINKS={}"),
    "bench --publish": ("", "--sustained publish"),
    "board wheels --mqtt": ("", "--with mqtt"),
    "local collect --reports": ("", "--until {}"),
    "local collect --seconds": ("", "--until {}s"),
    "publish archive --again": ("", "--accept again"),
    "publish archive --unaudited": ("", "--accept unaudited"),
    "recipe new --data": ("", ""),
    **{f"recipe new --{key}": ("", f"--camera {name}={{}}") for key, name in CAMERA.items()},
    "key new --token": ("", ""),
    "bundle card --cyclonedx": ("", ""),
    "bundle card --dpia": ("", ""),
    "export --pool": ("", "--emit code:{}"),
    "train --track": ("", "EDGEVEIL_TRACK={}"),
    "publish archive --chunk-rows": ("", "EDGEVEIL_CHUNK_ROWS={}"),
    "export --all-formats": ("", "--for all"),
    **{f"{verb} --{key}": ("", f"--series {key}={{}}") for verb in ("data inspect", "recipe new") for key in SERIES},
    "board probe --text": ("", ""),
    "doctor --on": ("", ""),
    "--jobs": ("", "EDGEVEIL_JOBS={}"),
    "trust init --auditor": ("", "--key auditor={}"),
    "trust init --release": ("", "--key release={}"),
    "trust init --runtime": ("", "--key runtime={}"),
    "trust init --root-key": ("", "--key root={}"),
    "trust rotate --root-key": ("", "--key {}"),
    **{
        f"trust set --{key}": ("", f"{key}={{}}")
        for key in ("product", "index-stale-days", "runtime", "require", "floor", "policy")
    },
    **{f"flash --{word}": ("", f"--accept {word}") for word in ("again", "new-ledger")},
    "flash --accept-leak": ("", "--accept leak"),
    "fleet flash --again": ("", "--accept again"),
    "--passphrase-file": ("", "EDGEVEIL_PASSPHRASE_FILE={}"),
    "--sign-passphrase-file": ("", "EDGEVEIL_SIGNING_PASSPHRASE_FILE={}"),
}

# Commands and options of earlier versions that were deleted: each is refused with one sentence, which names what
# replaces it. A key is a command (``fleet replace``) or an option of one (``recipe new --of``).
_ROUNDS = (
    "training by rounds over MQTT was deleted: estimate from private reports with edgeveil local collect, or train on "
    "recorded or simulated private gradients with edgeveil.trainer.ext.local.lpsgd; commit baecb1ef has it"
)
GONE = {
    "accept": "taps of an operator were deleted: a service compares what it sends with its audit by itself (shift in "
    "/healthz, on_shift of a policy); commit baecb1ef has them",
    "federate": _ROUNDS,
    "recipe new --of": _ROUNDS,
    "fleet accept": "boards' reports were deleted: an MQTT sink publishes TOPIC/status; commit baecb1ef has them",
    "fleet replace": "set the new board up as docs/how-to/replace-a-board.md describes, then run edgeveil fleet "
    "flash; commit baecb1ef has it",
    "fleet trust": "run edgeveil-edge trust trust-chain.json on each board, see docs/how-to/rotate-root-keys.md; "
    "commit baecb1ef has it",
    "fleet status --reports": "edgeveil fleet status asks each board, and an MQTT sink publishes TOPIC/status; "
    "commit baecb1ef has it",
    "fleet status --silent-after": "watch the age of TOPIC/status at your broker; commit baecb1ef has it",
    "board estimate --measured": "edgeveil-edge bench and edgeveil bench show your own results; commit baecb1ef has it",
    "board estimate --reference": "edgeveil board estimate shows the nearest published rows; commit baecb1ef has it",
    "flash --report-to": "an MQTT sink publishes TOPIC/status, and Mender and RAUC report updates; "
    "commit baecb1ef has it",
    **dict.fromkeys(
        ("run sweep --engine", "publish archive --engine"), "set EDGEVEIL_JOBS=ray, or ray:4 for four at a time"
    ),
    **dict.fromkeys(
        ("fleet flash --parallel", "fleet status --parallel", "fleet rollback --parallel"),
        "write parallel in boards.toml",
    ),
    **dict.fromkeys(
        ("fleet flash --most-failures", "fleet rollback --most-failures"), "write most_failures in boards.toml"
    ),
    "bench --seconds": "leave it out: a turn takes 0.2 s, and more --rounds make the intervals narrower",
    "publish archive --artefact": "leave it out: the first artefact that runs here is taken",
    "update runtime --version": "leave it out: it is one more than that of the file at --out",
    **dict.fromkeys(
        ("run report bench", "run report --results", "run report --privacy"),
        "tables and plots of recorded benchmarks were deleted: read the JSON of edgeveil-edge bench and of edgeveil "
        "bench; commit baecb1ef has them",
    ),
    "run report --bundle": "leave it out: edgeveil bundle inspect shows the hash of a bundle",
    "run sweep --kept": "give --json for the figures of one property; the picture shows all that were measured",
    **dict.fromkeys(
        ("audit pairs --seed", "audit board --seed", "audit board --tried", "audit pairs --full", "audit board --full"),
        "audits of boards and of pairs have seed 0, and give --json for every table",
    ),
    **dict.fromkeys(
        (f"pseudonym {verb} --{one}" for verb in ("reveal", "rotate") for one in ("recipient", "field", "epoch")),
        "give --scope RECIPIENT/FIELD/EPOCH",
    ),
    "train --private": "give --set private.epsilon=8 --set private.delta=1e-5",
    "flash --report-logs": "edgeveil board logs BOARD prints the log; commit baecb1ef has it",
}

# Commands of edgeveil-edge that edgeveil has not; it has groups of these two names, for other things.
RUNTIME = ("verify", "ledger", "record", "aim", "inside", "camera", "install", "recover", "try", "policy", "rauc")
BOTH = ("run", "update")


class Verb(TyperCommand):
    """A command. ``--json`` is of every one that prints facts (a parameter ``as_json``), as ``--help`` is of all."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.json = next((one for one in self.params if one.name == "as_json"), None)
        self.params = [one for one in self.params if one is not self.json]

    def get_params(self, ctx: Any) -> list[Any]:
        """Its own, then ``--json``, then ``--help``."""
        *own, last = super().get_params(ctx)
        return [*own, last] if self.json is None else [*own, self.json, last]


class App(typer.Typer):
    """A group whose commands are verbs."""

    def __init__(self, **settings: Any) -> None:
        usual = {"cls": Commands, "no_args_is_help": True, "context_settings": {"help_option_names": HELP}}
        super().__init__(**{**usual, **settings})

    def command(self, name: str | None = None, **settings: Any) -> Callable[[Any], Any]:
        """As of Typer, a ``Verb``."""
        return super().command(name, **{"cls": Verb, **settings})


class Commands(TyperGroup):
    """A group of commands: help in panels with whole descriptions; deleted commands are refused.

    ``default`` names the command that is meant where the first word is none of the group's.
    """

    default: str | None = None

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """As usual; the default command's name is put before words that name no command."""
        if self.default and args and args[0] not in (*self.commands, *HELP):
            args = [self.default, *args]
        return super().parse_args(ctx, args)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """As usual. Raises ``BadInput`` for a deleted command, or a deleted option of one."""
        path = f"{_path(ctx)} {args[0]}".strip()
        for word in (path, *(f"{path} {word.partition('=')[0]}" for word in args[1:])):
            if word in GONE:
                raise BadInput(f"edgeveil {word}: {GONE[word]}.")
        return super().resolve_command(ctx, args)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Those of the default command, if there is one, and its other commands; else as usual."""
        if self.default:
            self.commands[self.default].format_options(ctx, formatter)
            self.format_commands(ctx, formatter)
        else:
            super().format_options(ctx, formatter)

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002 - of click
        """A section for each panel, with the first paragraph of each command's help, whole."""
        panels: dict[str, list[tuple[str, str]]] = {}
        for name, command in self.commands.items():
            if not command.hidden and name != self.default:
                text = " ".join((command.help or "").partition("\n\n")[0].split())
                panels.setdefault(getattr(command, "rich_help_panel", None) or "Commands", []).append((name, text))
        for title in sorted(panels, key=lambda title: PANELS.index(title) if title in PANELS else 0):
            with formatter.section(title):
                formatter.write_dl(panels[title])


def _path(ctx: Any) -> str:
    """The commands that lead to this group, without arguments between them."""
    return "" if ctx.parent is None else f"{_path(ctx.parent)} {ctx.info_name}".strip()


class Program(Commands):
    """The commands of ``edgeveil``: takes old spellings with a warning, and names those that are the runtime's."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """As usual, with every word in its spelling of today. Raises ``BadInput`` for a command of the runtime."""
        if not args or ctx.resilient_parsing:
            return super().parse_args(ctx, args)
        if args[0] in RUNTIME or (args[0] in BOTH and _is_the_runtimes(args[1:])):
            line = " ".join(["edgeveil-edge", *args])
            raise BadInput(f"`edgeveil {args[0]}` is a command of the edge runtime: that is edgeveil-edge. Run: {line}")
        words, notes, variables = modern(args)
        for note in notes:
            say(note)
        for name, value in variables.items():
            before = os.environ.get(name)
            os.environ[name] = value
            ctx.call_on_close(lambda name=name, before=before: _restore(name, before))
        return super().parse_args(ctx, words)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """As usual. Raises ``BadInput`` that names the groups which have a command of that name, if this has none."""
        word = args[0]
        if word not in self.commands and word not in GONE:
            groups = [name for name, one in self.commands.items() if word in getattr(one, "commands", ())]
            if groups:
                meant = " or ".join(f"edgeveil {name} {word}" for name in groups)
                raise BadInput(f"There is no command edgeveil {word}; did you mean {meant}?")
        return super().resolve_command(ctx, args)


def _is_the_runtimes(words: list[str]) -> bool:
    """Whether these words follow ``run`` or ``update`` of the runtime: a bundle, or an option first."""
    return bool(words) and words[0] not in HELP and (words[0].startswith("-") or words[0].endswith(".veil"))


def _restore(name: str, before: str | None) -> None:
    if before is None:
        os.environ.pop(name, None)
    else:
        os.environ[name] = before


def modern(words: list[str]) -> tuple[list[str], list[str], dict[str, str]]:
    """A command line in the spelling of today, a warning for each old word, and variables of the environment.

    Raises ``BadInput`` where an old command lacks the word that its new spelling needs.
    """
    notes, variables = dict[str, None](), dict[str, str]()
    if words[:1] == ["audit"]:
        words = _workers(words, variables)
    if words[0] in ("flash", "bench") or (words[0] == "audit" and {"board", "--on"} & {*words}):
        words, file = _without(words, "--boards")
        variables |= {f"EDGEVEIL_{name[2:].upper()}": value for name, value in file.items()}
    if words[0] in ("board", "fleet"):  # the file of a site last, so that the verb is the second word
        first = ["--boards", words[1]] if words[1:2] and words[1].endswith(".toml") else words[1:2]
        words, file = _without([words[0], *first, *words[2:]], "--boards")
        words += [word for pair in file.items() for word in pair]

    def note(old: str, new: str) -> None:
        notes[f"warning: {old} is now {new}. This version takes the old name, {LAST} refuses it."] = None

    if words[0] == "pseudonym" and words[1:2] in (["subject"], ["erase"]):
        words, field = _without(words, "--field")
        if field and len(words) > 2:
            words[2] = f"{field['--field']}={words[2]}"
            note("--field FIELD", "FIELD=IDENTIFIER in one word")
    for old in (" ".join(words[:2]), words[0]):
        if old in MOVED:
            new, rest = MOVED[old].split(), words[len(old.split()) :]
            shown = f"edgeveil {MOVED[old]}".replace("{}", "FOLDER", 1).replace("{}", "VALUE")
            note(f"edgeveil {old}", shown)
            for place, word in enumerate(new):
                if "{}" not in word:
                    continue
                if not rest or rest[0].startswith("-"):
                    raise BadInput(f"edgeveil {old}: more words were expected before any option. Write {shown}.")
                new[place] = word.format(rest.pop(0))
            words = [*new, *rest]
            break
    out, verb, left = words[:1], words[:1], iter(words[1:])
    for word in left:
        name, equals, value = word.partition("=")
        keys = (f"{' '.join(words[:2])} {name}", f"{words[0]} {name}", name)
        key = next((key for key in keys if name.startswith("--") and key in MOVED_OPTIONS), None)
        command, option = MOVED_OPTIONS.get(key or "", ("", ""))
        if key is None or command.split() == words[:2]:
            out.append(word)
            continue
        verb = command.split() or verb
        if not option or "{}" not in option:
            note(f"edgeveil {key}", f"edgeveil {' '.join([command or key.rpartition(' ')[0], option])}".rstrip())
            out += f"{option}{equals}{value}".split(" ", 1) if option else [value] if equals else []
            continue
        given = value if equals else next(left, "")
        if not option[0].isupper():
            note(key, option.format("VALUE"))
            out += option.format(given).split(" ", 1) if option.startswith("--") else [option.format(given)]
        else:
            note(key, f"{option.format('FILE')} in the environment")
            variables[option.partition("=")[0]] = given
    return [*verb, *out[1:]], list(notes), variables


def _workers(words: list[str], variables: dict[str, str]) -> list[str]:
    """The words of an audit without ``--jobs`` and ``--engine``, which are short for EDGEVEIL_JOBS."""
    out, given = _without(words, "--jobs", "--engine")
    engine = given.get("--engine", "processes")
    if engine not in ("processes", "ray"):
        raise BadInput(f"--engine: expected processes or ray; got {engine}.")
    if given:
        variables["EDGEVEIL_JOBS"] = f"{'' if engine == 'processes' else 'ray:'}{given.get('--jobs', '')}"
    return out


def _without(words: list[str], *options: str) -> tuple[list[str], dict[str, str]]:
    """The words without these options, and the value of each that was there."""
    given, out, left = dict[str, str](), list[str](), iter(words)
    for word in left:
        name, equals, value = word.partition("=")
        if name in options:
            given[name] = value if equals else next(left, "")
        else:
            out.append(word)
    return out, given


class OfSite(Commands):
    """The verbs for boards of a site: ``--boards FILE`` may stand anywhere after the group's name, FILE alone first."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """As usual, with the file first."""
        if args and args[0].endswith(".toml"):
            args = ["--boards", *args]
        for at, word in enumerate(args):
            if word.partition("=")[0] == "--boards":
                end = at + (1 if "=" in word else 2)
                args = [*args[at:end], *args[:at], *args[end:]]
                break
        return super().parse_args(ctx, args)


# The groups. A module of this package adds its verbs to them; main.py imports each.


AUDIT = "EXPORT"  # of edgeveil audit EXPORT, whose word is no name of a verb


class _Audits(Commands):
    """The verbs of ``edgeveil audit``: an export folder first is the usual one."""

    default = AUDIT


app = App(name="edgeveil", cls=Program, pretty_exceptions_enable=False, rich_markup_mode=None)


def _group(name: str, panel: str, text: str, cls: type[Commands] = Commands) -> App:
    group = App(help=text, cls=cls)
    app.add_typer(group, name=name, rich_help_panel=panel)
    return group


recipes = _group("recipe", MAKE, "What to train on which data: list, show and write recipes.")
data = _group("data", MAKE, "Look at your own data, before any training.")
runs = _group("run", MAKE, "What was trained: list, show, compare and report runs, or sweep over settings.")
audits = _group("audit", MAKE, "Attack an artefact: how much does an adversary who retrains still learn?", _Audits)
bundles = _group("bundle", SHIP, "Look at a sealed bundle or its card, check it, count what it costs.")
board_group = _group(
    "board", BOARDS, "One board, by its name in boards.toml or its address: check, status, logs, releases.", OfSite
)
fleet = _group(
    "fleet", BOARDS, "All boards of boards.toml: flash, ask or roll back (docs/how-to/manage-a-fleet.md).", OfSite
)
updates = _group("update", BOARDS, "Sign what boards in use fetch: the index of bundles, and edge runtimes.")
keys = _group("key", TRUST, "Make a signing key, or show one.")
trust = _group(
    "trust", TRUST, "Who may sign what for your boards: root keys that stay offline, and the versioned list they sign."
)
local = _group("local", PUBLISH, "Estimates from the private reports of many devices.")
publish = _group("publish", PUBLISH, "Publish a table, or recordings and their table, for one recipient.")
pseudonym = _group("pseudonym", PUBLISH, "Keyed pseudonyms: reveal, rotate, erase.")
