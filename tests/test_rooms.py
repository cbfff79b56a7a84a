"""The house: who may import whom, how large it may be, and that the tests lie where the code does.

Layers stand in pyproject.toml (import-linter). Here is what that tool does not say.
"""

import ast
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from scripts.surface import KINDS, LONG, SHORT, SMALL, size
from tests.support import import_graph
from tests.support.checkout import ROOT

EDGES = import_graph.graph()
PACKAGES = sorted({name.rpartition(".")[0] for name in EDGES})


class Budget(NamedTuple):
    """The most that `scripts/surface.py --size` may measure; the aim; what the limit, or its last raise, buys."""

    limit: int
    target: int
    buys: str


# A change that needs more raises the limit here, with the sentence that says what the lines buy. A limit above its
# target is the measured size and 2 %: lower it with every change that takes lines away.
BUDGETS = {
    "product lines": Budget(
        101_170,
        66_000,
        "2,800 lines since bought rules at every door, one reader of state files, boards.toml and ssh as people "
        "have it, the command tree, the cost of anybody's model, and one reader for each format of data. 630 lines buy "
        "own classifiers and generators: mine.py:build, trained .keras files, and a sentence for each mistake; 940 "
        "wrap: a finished model or a plain function as a perturber, with what it expects found or refused; 310 "
        "pictures of any size, alike in training and on the board, splits that folders have, and films; 790 "
        "record: raw samples of a site that their owner alone can open; 740 tables as they are: one plan of columns "
        "for training and the board; 1,580 networks of PyTorch, which become Keras models operation by operation; 260 "
        "a recipe that recipe new has seen a run of; 1,380 data in HDF5, TFRecord, WebDataset, Hugging Face datasets, "
        "MCAP and rosbags; 660 data larger than memory, and several devices; 60 the memory that a board has; 130 "
        "counts that are enough in one place, and the default way on more data; 480 what a source and its sinks need, "
        "asked of the board before its first change; 240 settings that come back, services that are not well, "
        "and bundles that leak; 50 systems without an interpreter, and a Pi 5's throttling; 2,390 receivers that "
        "others read (JSON, pictures, MCAP, NATS, Kafka, RTSP, v4l2), an owner's programs, cameras of any size; 30 "
        "discriminants over all y, which read 87 % of blurred faces where those within each y read 64; 270 a "
        "counted Pufferfish bound, and what Corollary B.6 assumes, measured; 450 board remove; 80 what a board "
        "without a clock does; 250 pages that fold and sort; 380 settings that come signed to boards behind a router; "
        "350 converters, one file each; 35 what reads a trained classifier better, and cures for its size and end; 80 "
        "mistakes of own networks named; "
        "145 take a module of PyTorch as an object, a range of each channel, and name classes in each other's places; "
        "85 layers of an int8 file that stay float32; 60 int8 by NNCF for Intel's PCs; 20 wheels of Kafka, NATS, "
        "serial lines and OAK cameras; "
        "30 a resumed run that was given objects; 300 a search of settings by Optuna; "
        "45 sentences of trials, restarts and locks, receivers that are not connected, no telemetry; "
        "45 what an object expects, and mistakes that a walk met; "
        "350 a trained .onnx classifier, node by node; "
        "260 count-mean sketches, 170 a private lasso, 300 PATE; "
        "150 drawn digits for the demo; 80 a scene and counts in the preview; 350 fine-tuning for int8 and int16x8; "
        "140 receivers that are named with the reason and the cure, 70 the Hailo-10H; "
        "380 a limit of draws of a track, the frames of a stream that a bound holds for, and optimal composition; "
        "370 channels designed for a Pufferfish bound, and a charge for looks; "
        "480 several attributes kept and hidden at once, each with its figure in audit, verdict and policy; 60 what a "
        "report allows and assumes; 115 periods of sums of two values, in which a network learned to hide z; "
        "60 a service that wakes less often; 50 shuffles drawn as counts; 35 one command for all wheels of a board.",
    ),
    "spine lines": Budget(90_600, 52_000, "The product without ext/; a user's own networks and wrap are all in it."),
    "modules": Budget(
        504,
        400,
        "The merge of 858 modules; each stage kind, network, probe and section is a file since; 5 are of own networks "
        "and wrap, 6 of record, 1 of films, 2 of tables, 4 of PyTorch, 1 of ONNX, 1 of the fitting of networks, 9 of "
        "formats and of data larger than memory, 1 of what sources and sinks need on a board, 16 of receivers and "
        "sensors, 2 of a counted Pufferfish bound, 2 of board remove, 1 of figures, 1 of a search; "
        "8 of sketches, lasso, PATE, drawn digits and int8; 5 of bounds of streams and of several attributes; "
        "1 of designed channels; 1 family of attacks.",
    ),
    "folders": Budget(60, 60, "The target."),
    "folders of fewer than four modules": Budget(0, 0, "The target."),
    "modules under 40 lines": Budget(3, 0, "Modules that several packages import and none of them owns."),
    "modules over 500 lines": Budget(0, 0, "The target."),
    "scripts lines": Budget(7_000, 7_000, "The target."),
    "words of docs": Budget(60_000, 60_000, "The target."),
    "tests lines": Budget(
        90_170,
        55_000,
        "The tests of the tree after the deletions; since then of findings, doors, state files, ssh and commands, of "
        "86 public bug reports, of a user's own networks and models, of formats, of data larger than memory, and "
        "of what a flash promises, of receivers and of sensors; 50 of a newcomer's mistakes with own networks; 200 of "
        "a search of settings; "
        "120 of a field engineer's second hour; 520 of receivers that refuse, the Hailo-10H, a board's files before "
        "and after, and the field review's table; "
        "120 the marks of what waits for the night, each with the test that holds it by day; "
        "60 of a second walk with own networks; "
        "400 of .onnx classifiers; "
        "20 the choice of a checkpoint; "
        "750 of sketches, lasso and PATE; 380 of fine-tuning and the demo; "
        "280 of designed channels and of looks; 35 of audits that are compared, 20 of the papers' table; "
        "300 of networks that learn to hide z, and of the family that they led to; 40 of shuffles drawn as counts; "
        "40 of what one command collects and a foreign key is called.",
    ),
}


def test_no_circle_of_packages():
    circles = {package: import_graph.circles(import_graph.children(package, EDGES)) for package in PACKAGES}
    assert {package: found for package, found in circles.items() if found} == {}


def test_a_circle_is_found():
    edges = {"p.a.x": {"p.b.y"}, "p.b.z": {"p.a.w"}, "p.c": {"p.a.x"}}
    assert import_graph.circles(import_graph.children("p", edges)) == [["a", "b"]]
    assert import_graph.circles(edges) == []


def exceeded(measured: dict[str, Any]) -> list[str]:
    """The budgets that a tree does not keep."""
    return [name for name, budget in BUDGETS.items() if measured[name] > budget.limit]


def test_the_budgets_are_kept():
    measured = size()
    assert {name: (measured[name], BUDGETS[name]) for name in exceeded(measured)} == {}


def test_every_budget_says_what_it_buys():
    assert [name for name, one in BUDGETS.items() if not one.buys.endswith(".") or one.limit < one.target] == []


def modules(name: str, count: int, lines: int) -> dict[str, int]:
    """So many modules of so many lines; ``{}`` in the name is the number of each."""
    return {name.format(k): lines for k in range(count)}


# For each budget: files, with their lines, that use up so much of it.
PLANTS: dict[str, Callable[[int], dict[str, int]]] = {
    "product lines": lambda n: {"devices/ext/series/a.py": n},
    "spine lines": lambda n: {"trainer/cli/a.py": n},
    "modules": lambda n: modules("trainer/cli/m{}.py", n, SHORT),
    "folders": lambda n: modules("trainer/f{}/m.py", n, SHORT),
    "folders of fewer than four modules": lambda n: {
        name: lines for k in range(SMALL - 1) for name, lines in modules(f"trainer/f{{}}/m{k}.py", n, SHORT).items()
    },
    "modules under 40 lines": lambda n: modules("trainer/cli/m{}.py", n, SHORT - 1),
    "modules over 500 lines": lambda n: modules("trainer/cli/m{}.py", n, LONG + 1),
    "scripts lines": lambda n: {"scripts/a.py": n - 10, "scripts/test": 10},
    "words of docs": lambda n: {"docs/a.md": n},  # a word a line
    "tests lines": lambda n: {"tests/test_a.py": n},
}


def plant(root: Path, files: dict[str, int]) -> dict[str, Any]:
    """The size of a tree with these files of so many lines."""
    (root / "scripts").mkdir(exist_ok=True)
    for name, lines in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("a\n" * lines)
    return size(root)


def test_a_budget_that_is_exceeded_fails(tmp_path):
    for number, (name, budget) in enumerate(BUDGETS.items()):
        folder = tmp_path / str(number)
        folder.mkdir()
        assert name not in exceeded(plant(folder, PLANTS[name](budget.limit)))
        assert name in exceeded(plant(folder, PLANTS[name](budget.limit + 1))), name


def test_a_process_an_extension_and_a_kind_may_be_small(tmp_path):
    small = ("edge_runtime/inside/a.py", "edge_runtime/ext/ledger/a.py", "trainer/ext/sweep/a.py")
    short = ("devices/__main__.py", *(f"{folder}/{k}.py" for folder in KINDS for k in "abcd"))
    measured = plant(tmp_path, {**dict.fromkeys(small, SHORT), **dict.fromkeys(short, 10)})
    assert exceeded(measured) == []
    assert (measured["folders of fewer than four modules"], measured["modules under 40 lines"]) == (0, 0)


@pytest.mark.parametrize("root", [*import_graph.ROOTS, "scripts"])
def test_the_tests_mirror_the_tree(root):
    here = {path.parent.relative_to(ROOT / "tests") for path in (ROOT / "tests" / root).rglob("test_*.py")}
    assert {str(path) for path in here if not (ROOT / path).is_dir()} == set()


def test_nothing_of_the_product_imports_scripts_or_tests():
    found = [
        (path.relative_to(ROOT).as_posix(), name)
        for path in import_graph.modules().values()
        for name in _roots_imported(path)
        if name in {"scripts", "tests"}
    ]
    assert found == []


def _roots_imported(path: Path) -> Counter[str]:
    names: Counter[str] = Counter()
    text = path.read_text()
    for node in ast.walk(ast.parse(text)) if re.search(r"\b(scripts|tests)\b", text) else ():
        if isinstance(node, ast.Import):
            names.update(name.name.partition(".")[0] for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            names[node.module.partition(".")[0]] += 1
    return names
