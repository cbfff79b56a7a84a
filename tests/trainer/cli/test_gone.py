"""A deleted command, option or recipe key is refused with the sentence of its table, and exit code 2."""

import pytest

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.cli import main
from edgeveil.trainer.cli.main import GONE
from edgeveil.trainer.recipe import messages
from tests.support.small_runs import small_recipe


def refused(words, monkeypatch, capsys):
    monkeypatch.setattr(main, "quiet_process", lambda: None)
    monkeypatch.setattr("sys.argv", ["edgeveil", *words])
    with pytest.raises(SystemExit) as end:
        main.main()
    assert end.value.code == 2
    return capsys.readouterr().err


def test_every_sentence_names_the_commit():
    assert all("baecb1ef" in one and ". " not in one for one in (*GONE.values(), *messages.GONE.values()))


@pytest.mark.parametrize(
    ("words", "word"),
    [
        (["accept", "hall.veil", "--trust", "trust"], "accept"),
        (["federate", "--help"], "federate"),
        (["recipe", "new", "--data", "npz:mine.npz", "--of=gradient"], "recipe new --of"),
    ],
)
def test_a_deleted_command_or_option(words, word, monkeypatch, capsys):
    assert refused(words, monkeypatch, capsys) == f"error: edgeveil {word}: {GONE[word]}.\n"


def test_a_deleted_command_of_a_group_behind_its_argument(monkeypatch, capsys):
    monkeypatch.setitem(GONE, "fleet burn", "use fleet flash; commit baecb1ef has it")
    said = refused(["fleet", "hall.toml", "burn", "hall-1"], monkeypatch, capsys)
    assert said == "error: edgeveil fleet burn: use fleet flash; commit baecb1ef has it.\n"


def test_no_command_there_is_is_refused():
    commands = main.typer.main.get_command(main.app).commands
    assert not set(commands) & set(GONE)


@pytest.mark.parametrize("change", [{"of": "gradient"}, {"loss": "logistic"}, {"clip": 1.0}])
def test_a_deleted_recipe_key(change, tmp_path):
    section = {"kind": "local", "of": "reading", "mechanism": "duchi-linf", "epsilon": 1.0, **change}
    with pytest.raises(BadInput, match=r"training by rounds over MQTT was deleted.*collect.*baecb1ef") as caught:
        small_recipe(tmp_path / "x.npz", perturber=section)
    assert f"`perturber.{next(iter(change))}`" in str(caught.value)
