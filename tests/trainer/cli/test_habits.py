"""What people type without having read anything, and what they are answered."""

import re
import shlex

import numpy as np
import pytest
import typer.main

from edgeveil.edge_runtime.cli import main as edge
from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.signing.keys import Key, public_key_line
from edgeveil.trainer.cli.tree import app

pytestmark = pytest.mark.usefixtures("few_trees")

# What is typed, the exit code, and words of the answer, on stdout or stderr.
HABITS = {
    "edgeveil -h": (0, ["Train and measure:", "Boards:", "-h, --help"]),
    "edgeveil board status -h": (0, ["Show what a board runs", "BOARD"]),
    "edgeveil keygen keys --no-passphrase": (0, ["edgeveil keygen is now edgeveil key new", "Wrote keys/signing.key"]),
    "edgeveil key show theirs.pub": (0, ["ann: 1111"]),
    "edgeveil train digits": (2, ["The run goes to runs/digits-2.", "enough"]),
    "edgeveil train digits --set budget.epochs=3": (2, ["epochs=3", "enough"]),
    "edgeveil train digits --epochs 3": (2, ["edgeveil train digits --set budget.epochs=3"]),
    "edgeveil train digits --colour=3": (2, ["No such option: --colour"]),
    "edgeveil train digits --set budget.epoch=3": (
        2,
        ['`budget.epoch` is not a key of a recipe (did you mean "epochs"?)'],
    ),
    "edgeveil train digits --set seed.x=3": (2, ["seed.x: seed of digits-codebook is a value"]),
    "edgeveil train digits --set epochs": (2, ['--set: expected KEY=VALUE such as budget.epochs=3; got "epochs"']),
    "edgeveil train digts": (2, ['There is no recipe "digts" (did you mean "digits"?)']),
    "edgeveil data inspect mine.npz": (0, ["Next: edgeveil recipe new"]),
    "edgeveil data inspect pictures/": (2, ["pictures"]),
    "edgeveil data inspect both": (2, ["write csv:both for recordings, or images:both"]),
    "edgeveil board show pi4": (2, ["there is no profile 'pi4'; did you mean raspberry-pi-cpu?"]),
    "edgeveil board show raspberrypi5": (2, ["did you mean raspberry-pi5?"]),
    "edgeveil board show jetson": (2, ["did you mean jetson-nano?"]),
    "edgeveil inspect mine.veil": (
        2,
        ["There is no command edgeveil inspect; did you mean edgeveil data inspect or edgeveil bundle inspect?"],
    ),
    "edgeveil bundle inspect mine.veil --trust .": (2, ["There is no bundle to read at mine.veil"]),
    "edgeveil wrap mine.keras --data mine.npz --out e": (2, ["mine.keras: no such file or directory. Name a file"]),
    "edgeveil wrap blurr:sigma=1 --data mine.npz --out e": (2, ["blurr:sigma=1: expected a file .keras"]),
    "edgeveil wrap blur:sigma=1 --data nothere --out e": (2, ['There is no recipe "nothere"']),
    "edgeveil wrap blur:sigma=1 --data nothere.npz --out e": (2, ["nothere.npz"]),
    "edgeveil run mine.veil --trust keys": (2, ["Run: edgeveil-edge run mine.veil --trust keys"]),
    "edgeveil run lst": (2, ["Did you mean 'list'?"]),
    "edgeveil recipe show digits --json": (0, ['"perturber"']),
    "edgeveil-edge instal": (2, ["no command 'instal'; did you mean install?"]),
    "edgeveil-edge -h": (0, ["install", "releases"]),
    "edgeveil-edge run b.veil --trust t --source nppz:a --sink none": (2, ["Did you mean npz:?"]),
    "edgeveil-edge run b.veil --trust t --source mine.npz --sink out.npy": (2, ["expected a sink as", "got 'out.npy'"]),
    "edgeveil-edge run b.veil --trust t --source mine.npz --sink out.npz": (2, ["trust folder at t"]),
    "edgeveil-edge run b.veil --trust t --source pictures --sink http:x": (2, ["Write http://"]),
}


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder with somebody's data, where nothing is trained: whoever gets that far is told what was asked."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "theirs.pub").write_text(public_key_line(Key("1" * 64, "ann", False)))
    draw = np.random.default_rng(0)
    y, z = draw.integers(0, 2, (2, 400))
    np.savez("mine.npz", x=draw.integers(0, 255, (400, 8, 8, 1)).astype("uint8"), y=y, z=z)
    (tmp_path / "runs/digits").mkdir(parents=True)
    (tmp_path / "pictures/cat").mkdir(parents=True)
    (tmp_path / "pictures/cat/a.png").touch()
    (tmp_path / "both").mkdir()
    (tmp_path / "both/a.csv").touch()
    (tmp_path / "both/a.png").touch()

    def train(recipe, out, **_):
        raise BadInput(f"enough: {out}, epochs={recipe.budget.epochs}")

    monkeypatch.setattr("edgeveil.trainer.train.train", train)


@pytest.mark.parametrize("typed", HABITS)
def test_a_habit_is_answered(here, edgeveil, capsys, typed):
    program, *words = shlex.split(typed)
    if program == "edgeveil":
        code, out, err = edgeveil(*words)
    else:
        try:
            code = edge.main(words)
        except SystemExit as stop:
            code = stop.code
        out, err = capsys.readouterr()
    expected, answers = HABITS[typed]
    assert code == expected, out + err
    for answer in answers:
        assert answer in " ".join((out + err).split()), out + err


def test_help_is_in_panels_and_no_description_is_cut(edgeveil):
    for words in (
        [],
        *([name] for name, one in typer.main.get_command(app).commands.items() if hasattr(one, "commands")),
    ):
        code, out, _ = edgeveil(*words, "--help")
        assert (code, "..." in out.partition("\n\n")[2]) == (0, False), out


def test_plumbing_is_hidden_but_there(capsys):
    with pytest.raises(SystemExit):
        edge.main(["--help"])
    shown = set(re.findall(r"^    ([a-z]\S*)", capsys.readouterr().out, re.M))
    assert shown == {
        "run",
        "verify",
        "aim",
        "bench",
        "install",
        "update",
        "rollback",
        "status",
        "releases",
        "trust",
        "ledger",
        "record",
    }
    with pytest.raises(SystemExit) as ended:
        edge.main(["rauc", "--help"])
    assert ended.value.code == 0
