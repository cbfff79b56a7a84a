"""A TOML file as models: what is wrong is named by its key, with what was expected there."""

from typing import Annotated

import pytest
from pydantic import Field

from edgeveil.devices.toml_tables import SomeTexts, Table, Text, checked, read_toml
from edgeveil.edge_runtime.errors import BadInput


class Part(Table):
    """A nested table."""

    name: Text
    places: SomeTexts = ()


class Whole(Table):
    """A document."""

    size: int = Field(1, description="a size, from 1", ge=1)
    one: Part | None = None
    parts: Annotated[tuple[Part, ...], Field(strict=False)] = ()


@pytest.mark.parametrize(
    ("document", "says"),
    [
        (3, "the document must be a table, and is 3"),
        ({"size": 0}, "size must be a size, from 1, and is 0"),
        ({"size": True}, "size must be a size, from 1, and is True"),
        ({"sizes": 1}, "sizes is not a known key. Did you mean size"),
        ({"one": 3}, "one must be a table, and is 3"),
        ({"one": {}}, r"one.name is missing. See docs/x.md"),
        ({"one": {"nam": "x"}}, "one.nam is not a known key. Did you mean name"),
        ({"one": {"other": "x"}}, "one.other is not a known key. Known here are name, places"),
        ({"one": {"name": "  "}}, "one.name must be text that is not blank"),
        ({"parts": [{"name": "a"}, {"name": 2}]}, r"parts\[1\].name must be text that is not blank, and is 2"),
        ({"parts": "a"}, "parts must be a list, and is 'a'"),
        ({"one": {"name": "a", "places": []}}, "one.places must be a list of at least one"),
        ({"one": {"name": "a", "places": ["b", "b"]}}, "one.places must be a list without repeats"),
    ],
)
def test_the_first_thing_wrong_is_named(document, says):
    with pytest.raises(BadInput, match=says):
        checked(Whole, document, "file.toml", "docs/x.md")


def test_a_file_that_cannot_be_read_is_one_sentence(tmp_path):
    path = tmp_path / "a.toml"
    with pytest.raises(BadInput, match=r"The board .docs/x.md shows one. .*No such file"):
        read_toml(path, "board", "docs/x.md")
    path.write_bytes(b"\xff")
    with pytest.raises(BadInput, match="as UTF-8 text, and line 1 is not"):
        read_toml(path, "board", "docs/x.md")
