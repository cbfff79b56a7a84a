"""Write what users depend on as one sorted JSON document, and the size of the tree.

    python -m scripts.surface > surface.json         verbs, options, exit codes, keys, schemes, reasons, variables
    python -m scripts.surface --size                 lines, modules and folders of the tree

Two commits are compared by a diff of their documents: a redesign may take away only what its plan names.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]

ROOTS = ("edge_runtime", "trainer", "devices", "models")
PROCESSES = ("edge_runtime/inside", "edge_runtime/outside")  # packages of one process: they may be small
# Folders of siblings of one kind, one file each: such a file may be short.
KINDS = """
devices/agents edge_runtime/backends edge_runtime/sinks edge_runtime/sources edge_runtime/stages models
trainer/attacks/families trainer/audit/probes trainer/datasets trainer/datasets/loaders trainer/export/compilers
trainer/export/converters trainer/perturbers trainer/ext/private/estimators
""".split()  # noqa: SIM905
SMALL, SHORT, LONG = 4, 40, 500  # modules of a folder; lines of a module


def commands(command: Any, path: str = "edgeveil") -> dict[str, list[str]]:
    """Every verb of a click command with its arguments and options."""
    if hasattr(command, "commands"):
        return {k: v for name, one in command.commands.items() for k, v in commands(one, f"{path} {name}").items()}
    return {path: sorted("/".join([*one.opts, *one.secondary_opts]) for one in command.params)}


def arguments(parser: argparse.ArgumentParser, path: str) -> dict[str, list[str]]:
    """Every verb of an argparse parser with its arguments and options."""
    below = [one for one in parser._actions if isinstance(one, argparse._SubParsersAction)]
    if below:
        return {k: v for name, one in below[0].choices.items() for k, v in arguments(one, f"{path} {name}").items()}
    options = (one for one in parser._actions if not isinstance(one, argparse._HelpAction))
    return {path: sorted("/".join(one.option_strings) or one.dest for one in options)}


def properties(schema: Any, path: str = "") -> set[str]:
    """The properties of a JSON schema, those of ``$defs`` by their definition's name."""
    out: set[str] = set()
    if isinstance(schema, dict):
        for name, one in (schema.get("properties") or {}).items():
            out |= {f"{path}{name}"} | properties(one, f"{path}{name}.")
        for name, one in (schema.get("$defs") or {}).items():
            out |= properties(one, f"{name}:")
        for key in ("items", "anyOf", "oneOf", "allOf", "additionalProperties", "prefixItems"):
            for one in schema[key] if isinstance(schema.get(key), list) else [schema.get(key)]:
                out |= properties(one, path)
    return out


def literals(pattern: str, *roots: str) -> list[str]:
    """What the first group of a pattern matches in the product's Python files."""
    texts = (path.read_text() for root in roots for path in (ROOT / root).rglob("*.py"))
    return sorted({found for text in texts for found in re.findall(pattern, text)})


def surface() -> dict[str, Any]:
    """What users, boards and receivers depend on."""
    import typer

    from edgeveil.edge_runtime import errors, kinds
    from edgeveil.edge_runtime.cli.main import _parser
    from edgeveil.trainer.cli.main import app
    from edgeveil.trainer.recipe.schema import Recipe

    schemas = sorted((ROOT / "docs/reference/schemas").glob("*.json"))
    raised = (one for one in vars(errors).values() if isinstance(one, type) and hasattr(one, "exit_code"))
    return {
        "commands": commands(typer.main.get_command(app)) | arguments(_parser(), "edgeveil-edge"),
        "exit codes": {one.__name__: one.exit_code for one in raised},
        "recipe": sorted(properties(Recipe.model_json_schema())),
        "schemas": {path.name: sorted(properties(json.loads(path.read_text()))) for path in schemas},
        "sources": sorted(kinds.SOURCES.kinds()),
        "sinks": sorted(kinds.SINKS.kinds()),
        "reasons": literals(r"FrameDropped\(\s*\"([a-z-]+)\"", "edge_runtime"),
        "topics": literals(r"\"(/[a-z]+(?:/[a-z]+)*)\"", "edge_runtime/sinks"),
        "variables": literals(r"\b(EDGEVEIL_[A-Z_]+)\b", *ROOTS),
        "recipes": sorted(path.stem for path in (ROOT / "trainer/recipe/library").glob("*.toml")),
        "profiles": sorted(path.stem for path in (ROOT / "devices/profiles").glob("*.toml")),
    }


def size(root: Path = ROOT) -> dict[str, Any]:
    """Lines, modules and folders of a checkout. ``spine`` is the product without its extensions.

    A process or an extension is no small folder, and a file of a folder of :data:`KINDS` no short module.
    """
    files = {name: sorted((root / name).rglob("*.py")) for name in (*ROOTS, "scripts", "tests")}
    lines = {path: len(path.read_text().splitlines()) for paths in files.values() for path in paths}
    product = [path for name in ROOTS for path in files[name]]
    modules = [path for path in product if path.name not in ("__init__.py", "__main__.py")]
    by_folder: dict[str, int] = {}
    for path in modules:
        folder = path.parent.relative_to(root).as_posix()
        by_folder[folder] = by_folder.get(folder, 0) + 1
    counted = {f: n for f, n in by_folder.items() if f not in PROCESSES and "ext" not in f.split("/")}
    short = [p for p in modules if lines[p] < SHORT and p.parent.relative_to(root).as_posix() not in KINDS]
    shell = [path for path in (root / "scripts").iterdir() if path.is_file() and path.suffix != ".py"]
    return {
        "product lines": sum(lines[path] for path in product),
        **{f"{name} lines": sum(lines[path] for path in files[name]) for name in ROOTS},
        "spine lines": sum(lines[path] for path in product if "ext" not in path.relative_to(root).parts),
        "modules": len(modules),
        "folders": len(by_folder),
        "folders of fewer than four modules": sum(count < SMALL for count in counted.values()),
        "modules under 40 lines": len(short),
        "median module": statistics.median([lines[path] for path in modules] or [0]),
        "modules over 500 lines": sum(lines[path] > LONG for path in modules),
        "scripts lines": sum(lines[p] for p in files["scripts"]) + sum(len(p.read_text().splitlines()) for p in shell),
        "tests lines": sum(lines[path] for path in files["tests"]),
        # A rule or a bar of a table is no word.
        "words of docs": sum(
            any(letter.isalnum() for letter in word)
            for path in (root / "docs").rglob("*.md")
            for word in path.read_text().split()
        ),
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", action="store_true", help="the size of the tree instead")
    parser.add_argument("--root", type=Path, default=ROOT, help="the checkout to measure")
    asked = parser.parse_args()
    print(json.dumps(size(asked.root) if asked.size else surface(), indent=1))
