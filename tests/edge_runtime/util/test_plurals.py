"""A number goes with its noun, and a system's error is told without number and path."""

from pathlib import Path

import pytest

from edgeveil.edge_runtime.errors import BadInput, reason
from edgeveil.edge_runtime.util.validate import counted
from edgeveil.trainer.export.kept_pieces import kept_pieces
from edgeveil.trainer.recipe.schema import Recipe
from edgeveil.trainer.report.frontier import read_bench
from edgeveil.trainer.runs.listing import settings
from edgeveil.trainer.runs.run import Run


@pytest.mark.parametrize(
    ("said", "wanted"),
    [
        (counted(1, "piece"), "1 piece"),
        (counted(0, "piece"), "0 pieces"),
        (counted(2400, "row is", "rows are"), "2,400 rows are"),
        (counted(1, "person was", "people were"), "1 person was"),
    ],
)
def test_one_is_one(said, wanted):
    assert said == wanted


def test_a_single_piece_of_a_broken_off_export_is_one_piece(tmp_path, capsys):
    out = tmp_path / "export"

    def broken_off() -> None:
        with kept_pieces(out, {}) as kept:
            kept.piece(lambda: {"x": [1.0]}, "one")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        broken_off()
    assert "1 piece of the export is kept" in capsys.readouterr().err
    with kept_pieces(out, {}):
        assert "has 1 piece of it" in capsys.readouterr().err


def test_a_reason_has_no_number_and_no_path():
    with pytest.raises(OSError, match="Errno") as caught:
        Path("/no/such/file").stat()
    assert reason(caught.value) == "No such file or directory"
    assert reason(ValueError("Expecting value.")) == "Expecting value"
    assert reason(OSError()) == "OSError"


@pytest.mark.parametrize("open_it", [Run.open, Recipe.find, settings, read_bench])
def test_the_path_is_said_once(tmp_path, open_it):
    missing = tmp_path / "no-such.toml"
    with pytest.raises(BadInput) as caught:
        open_it(missing)
    assert str(caught.value).count(str(missing)) == 1
    assert "Errno" not in str(caught.value)
