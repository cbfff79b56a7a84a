"""Kinds are found by their files; a user's own by an entry point; a zipapp has a table in place of its folder."""

import json
import sys

import pytest

from edgeveil.edge_runtime import registry
from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.kinds import REGISTRIES
from edgeveil.edge_runtime.registry import Registry
from edgeveil.edge_runtime.stages import STAGES
from edgeveil.trainer.export.compilers.vendors import COMPILERS
from edgeveil.trainer.recipe.data_section import SETS
from edgeveil.trainer.recipe.networks import NETWORKS
from edgeveil.trainer.recipe.perturber import KINDS

SHAPES = """'''A
class of text.
'''
import there_is_no_such_module

class Base(object):
    sides = 0
    tags = ["flat"]
    open = bool

class Square(
    Base,
):
    '''Four
    sides.
    '''

    def area(
        self,
    ):
        sides = 8

    names = (
        "square",
        "box",
    )
    sides: int = 4

class Helper(object):
    sides = 9
"""
PLUGIN = """
class Star(object):
    names = ("star", "square")
    sides = 10
"""


@pytest.fixture
def shapes(tmp_path, monkeypatch):
    """A package ``shapes`` whose module cannot be imported: facts are read without an import."""
    (tmp_path / "shapes").mkdir()
    (tmp_path / "shapes/__init__.py").write_text("")
    (tmp_path / "shapes/square.py").write_text(SHAPES)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield Registry("shapes", key="names", group="test.shapes", word="shape")
    for name in [one for one in sys.modules if one.partition(".")[0] in ("shapes", "star_shape")]:
        del sys.modules[name]


@pytest.fixture
def plugin(tmp_path, monkeypatch):
    """An installed package with the shape ``star``."""
    folder = tmp_path / "installed"
    (folder / "star_shape-1.dist-info").mkdir(parents=True)
    (folder / "star_shape-1.dist-info/entry_points.txt").write_text("[test.shapes]\nstar = star_shape:Star\n")
    (folder / "star_shape.py").write_text(PLUGIN)
    monkeypatch.syspath_prepend(str(folder))
    return folder


def test_a_file_of_the_folder_is_a_kind_under_each_of_its_names(shapes):
    assert sorted(shapes.kinds()) == ["box", "square"]
    square = shapes["square"]
    assert (square.module, square.attribute) == ("shapes.square", "Square")
    # Literals of the base class come along; what is computed at import does not.
    assert square.facts == {"names": ("square", "box"), "sides": 4, "tags": ("flat",)}
    with pytest.raises(ModuleNotFoundError):
        square.load()


def test_a_name_that_there_is_not_gets_the_nearest(shapes):
    with pytest.raises(BadInput, match=r"expected a shape of box, square; got 'sqare'. Did you mean square\?"):
        shapes["sqare"]


def test_an_entry_point_adds_a_kind_and_replaces_none(shapes, plugin):
    assert shapes["star"].load().sides == 10
    assert shapes["square"].module == "shapes.square"


@pytest.mark.parametrize("one", [*REGISTRIES, STAGES, KINDS, SETS, NETWORKS, COMPILERS], ids=lambda one: one.word)
def test_facts_are_read_without_the_functions_and_none_is_lost(one):
    assert one.rows() == registry._rows_of(registry._classes(one._sources(), whole=True), one.key)
    source = "".join(filter(None, one._sources().values()))
    assert len(registry.outline(source)) < 0.5 * len(source)


@pytest.mark.parametrize("value", ["star_shape:Moon", "nowhere:Star", "star_shape"])
def test_an_entry_point_that_names_no_kind_is_refused_by_its_text(shapes, plugin, value):
    (plugin / "star_shape-1.dist-info/entry_points.txt").write_text(f"[test.shapes]\nstar = {value}\n")
    with pytest.raises(BadInput, match=f"the entry point star = {value} of test.shapes: expected MODULE:CLASS"):
        shapes["star"]


def test_the_damaged_metadata_of_another_package_stops_nothing(shapes, plugin):
    (plugin / "damaged-1.dist-info").mkdir()
    (plugin / "damaged-1.dist-info/entry_points.txt").write_text("no section\n")
    assert shapes["star"].name == "star"


def test_a_written_table_is_read_in_place_of_the_folder(shapes, monkeypatch):
    written = json.loads(registry.table([shapes]))
    monkeypatch.setattr(
        registry, "_written", lambda: {k: [(*r[:3], registry._tuples(r[3])) for r in v] for k, v in written.items()}
    )
    monkeypatch.setattr(Registry, "rows", lambda self: pytest.fail("the folder was listed"))
    assert Registry("shapes", key="names").kinds() == {
        name: registry.Kind(
            name, "shapes.square", "Square", {"names": ("square", "box"), "sides": 4, "tags": ("flat",)}
        )
        for name in ("square", "box")
    }
