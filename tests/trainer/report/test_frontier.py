"""The picture of a frontier: axes in the words of the paper, and a legend that names all that is drawn."""

import json

import pytest

from edgeveil.trainer.report import frontier
from tests.support.checkout import ROOT

RECORD = ROOT / "docs/results/privacy/frontier-wifi.json"


@pytest.fixture
def drawn(tmp_path, monkeypatch):
    """The figure of some points."""
    figures = []
    monkeypatch.setattr(frontier, "saved", lambda figure, *_, **__: figures.append(figure) or b"")

    def draw(points):
        frontier.draw({"points": points}, tmp_path)
        return figures[0]

    return draw


@pytest.fixture
def points():
    return frontier.measured(json.loads(RECORD.read_text()))


def test_axes_say_what_they_are_in_the_words_of_the_abstract(drawn, points):
    for axes in drawn(points).axes:
        assert axes.get_xlabel() == "Accuracy on the sensitive attribute,\nbest attack found, %"
        assert axes.get_ylabel() == "Accuracy on the target attribute, %" or axes.get_ylabel().startswith(
            "Correlation before"
        )


def test_the_legend_names_every_series_once_and_no_two_look_alike(drawn, points):
    recipes = [name for name in dict.fromkeys(row["recipe"] for row in points) if name != "label-only"]
    more = [{**points[0], "recipe": f"recipe-{n}"} for n in range(12)]
    figure = drawn([*points, *more])
    names = [text.get_text() for text in figure.legends[0].get_texts()]
    assert sorted(names) == sorted(
        [*recipes, *(row["recipe"] for row in more), "chance"]
        + (["label-only (the floor)"] if any(row["recipe"] == "label-only" for row in points) else [])
    )
    lines = [bars.lines[0] for bars in figure.axes[0].containers]
    assert len({(line.get_color(), line.get_marker()) for line in lines}) == len(lines)


def test_a_series_that_a_panel_cannot_show_is_named_there(drawn, points):
    kept = next(row for row in points if row["kept"])
    figure = drawn([kept, {**kept, "recipe": "bare", "kept": {}}])
    left, right = figure.axes
    assert [text.get_text() for text in right.texts] == ["not measured: bare"]
    assert max(map(len, right.get_ylabel().splitlines())) <= frontier.WIDEST_LABEL
    assert [text.get_text() for text in left.texts] == []
