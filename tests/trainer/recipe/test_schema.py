"""A recipe says what is wrong with it: the key, what was expected, what came."""

import copy
import json
import re
import typing
from typing import Annotated

import pytest
import tomllib
from pydantic import ConfigDict, TypeAdapter, ValidationError

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.recipe.messages import members, tags
from edgeveil.trainer.recipe.perturber import KINDS, union
from edgeveil.trainer.recipe.schema import ALIASES, Recipe
from scripts import reference
from tests.support.checkout import ROOT

GOOD = tomllib.loads(Recipe.find("digits-prgan").toml())


def changed(path, value):
    """The good recipe with one key set, or removed where the value is None."""
    table = copy.deepcopy(GOOD)
    *sections, key = path.split("/")
    at = table
    for section in sections:
        at = at[section]
    if value is None:
        del at[key]
    else:
        at[key] = value
    return table


def test_every_recipe_that_comes_along_holds():
    found = {name: Recipe.find(name) for name in (*Recipe.names(), *ALIASES)}
    assert {name: one.name for name, one in found.items()} == {name: ALIASES.get(name, name) for name in found}
    assert [name for name, one in found.items() if not one.description] == []


def test_a_recipe_written_out_reads_back_the_same():
    recipe = Recipe.find("digits-prgan")
    assert Recipe.parse(recipe.toml()) == recipe


def test_the_quick_budget_is_smaller_and_the_rest_is_the_same():
    recipe = Recipe.find("mnist-prgan")
    quick = recipe.with_budget("quick")
    assert quick.budget.rows == recipe.budget.quick.rows
    assert quick.budget.epochs < recipe.budget.epochs
    assert quick.model_copy(update={"budget": recipe.budget}) == recipe
    assert recipe.with_budget("full") is recipe


def test_every_kind_of_perturber_has_a_section_and_a_module():
    kinds = [kind for model in members(typing.get_args(union())[0]) for kind in tags(model)]
    assert sorted(kinds) == sorted(KINDS.kinds())


@pytest.mark.parametrize(
    ("path", "value", "says"),
    [
        ("perturber/alpah", 1.0, '`perturber.alpah` is not a key of a recipe (did you mean "alpha"?)'),
        ("perturber/generator/widht", 8, 'did you mean "width"?'),
        (
            "perturber/generator",
            {"architecture": "mlp", "width": 8, "latent": 4, "clip": "returns"},
            "`perturber.generator.clip`: expected no such key with `latent`, where nothing is clipped; got",
        ),
        (
            "framework",
            "torch",
            "`framework`: no key is needed for PyTorch: name the function that returns an nn.Module",
        ),
        ("classifiers/framework", "torch", "`classifiers.framework`: no key is needed for PyTorch: name"),
        ("perturber/framework", "torch", "`perturber.framework`: no key is needed for PyTorch: name"),
        ("dta", {}, '`dta` is not a key of a recipe (did you mean "data"?)'),
        ("perturber/alpha", -1, "`perturber.alpha`: expected greater than 0; got -1"),
        ("perturber/alpha", float("inf"), "`perturber.alpha`: expected a finite number; got inf"),
        ("perturber/kind", "prgn", f'expected {", ".join(KINDS.kinds())}; got "prgn" (did you mean "prgan"?)'),
        ("perturber/kind", None, f"`perturber.kind`: expected {', '.join(KINDS.kinds())}; got none"),
        ("perturber/distance", None, "`perturber.distance` is missing; expected: c of eq. 10"),
        ("perturber", 3, "`perturber`: expected a table, as in [perturber]; got 3"),
        ("prior/kind", "guess", "`prior.kind`: expected table, counted, uniform"),
        ("prior/table/even/below-five", "most", '`prior.table.even.below-five`: expected a valid number; got "most"'),
        ("seed", "0", '`seed`: expected a valid integer; got "0"'),
        ("seed", -1, "`seed`: expected greater than or equal to 0; got -1"),
        ("name", "My Recipe", "`name`: expected a name of a-z"),
        (
            "data/source",
            "minst",
            '"mnist", "scene", "wq", "overhead", "utd-mhad", "wifi", "wifi-strength", "wrist", or '
            '"npz:FILE", "images:DIR", "video:FILE", "csv:FILE", "hdf5:FILE", "huggingface:PATH", "mcap:PATH", '
            '"rosbag:PATH", "tfrecord:PATH", "webdataset:PATH" or "parquet:FILE"; got "minst"',
        ),
        ("data/series", {"channels": []}, "`data.series.channels`: expected at least 1; got an array of 0"),
        ("data/series", {"people": [7]}, "`data.series.people`: expected at least 2; got an array of 1"),
        ("data/series", {"channels": ["a"] * 65}, "`data.series.channels`: expected at most 64; got an array of 65"),
        ("budget/epochs", True, "`budget.epochs`: expected a valid integer; got true"),
        ("limits/target_accuracy", 95, "`limits.target_accuracy`: expected less than or equal to 1; got 95"),
    ],
)
def test_a_wrong_key_gets_one_sentence(path, value, says):
    with pytest.raises(BadInput) as caught:
        Recipe.check(changed(path, value), origin="mine.toml")
    message = str(caught.value)
    assert says in message
    assert message.startswith("mine.toml: ")
    assert "\n" not in message


@pytest.mark.parametrize("end", ["wide", [], [0.0, "1"], [float("nan")], True])
def test_a_bound_is_a_number_or_one_for_each_feature(end):
    with pytest.raises(BadInput, match=r"`data.low`: expected a finite number, or a list of one for each feature; got"):
        Recipe.check(changed("data/low", end))


def test_bounds_come_from_one_place():
    table = changed("data/bounds", "from-training")
    table["data"]["low"] = 0.0
    with pytest.raises(BadInput, match='no `low` and `high` with `bounds = "from-training"`'):
        Recipe.check(table)


def test_two_wrong_keys_are_counted():
    table = changed("seed", "0")
    table["budget"]["epochs"] = 0
    with pytest.raises(BadInput, match=r"1 more after that"):
        Recipe.check(table)


def test_text_that_is_not_toml_says_where(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text("name = \n")
    with pytest.raises(BadInput, match=r"mine\.toml is not valid TOML: .*line 1"):
        Recipe.find(path)


def test_a_file_that_is_not_text_is_refused(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(BadInput, match="UTF-8"):
        Recipe.find(str(path))


def test_an_unknown_name_gets_the_near_one():
    with pytest.raises(BadInput, match=r'no recipe "digts" \(did you mean "digits"\?\)'):
        Recipe.find("digts")


def test_data_in_place_of_a_recipe_are_told_how_to_get_one(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.csv").write_text("a,b\n1,2\n")
    with pytest.raises(BadInput, match=r"recipe new csv:mine\.csv"):
        Recipe.find("mine.csv")
    with pytest.raises(BadInput, match=r"`edgeveil recipe list --all` names") as refused:
        Recipe.find("nothing-like-it")
    assert len(str(refused.value)) < 200


def test_a_missing_file_is_named():
    with pytest.raises(BadInput, match="no such file"):
        Recipe.find("nowhere/mine.toml")


def test_npz_paths_are_taken_from_the_folder_of_the_recipe(tmp_path):
    text = Recipe.find("digits-prgan").toml().replace('source = "digits"', 'source = "npz:data/mine.npz"')
    (tmp_path / "mine.toml").write_text(text)
    found = Recipe.find(tmp_path / "mine.toml").data.source
    assert found == f"npz:{tmp_path.resolve() / 'data' / 'mine.npz'}"


def test_the_reference_is_the_one_the_models_give():
    text = (ROOT / "docs/reference/recipes.md").read_text()
    assert reference.page(text) == text, reference.HOW


def rows():
    """(heading, key, what the page says of its value, what it says of it left out, field) of every key of the page."""
    text = (ROOT / "docs/reference/recipes.md").read_text()
    for heading, model in reference.sections():
        listed = text.partition(f"### {heading}\n\n{model.__doc__}\n")[2].partition("\n### ")[0]
        for key, said, left_out in re.findall(r"^\* `(\w+)` \((.*?); (required|optional|`[^`]*`)\): ", listed, re.M):
            yield heading, key, said, left_out, model.model_fields[key]


def takes(field, value):
    """Whether a key takes a value, written as the page writes it, by its type and limits."""
    read = tomllib.loads(f"key = {value}")["key"]
    field_type = Annotated[field.annotation, field]
    try:
        TypeAdapter(field_type, config=ConfigDict(strict=True)).validate_python(read)
    except ValidationError:
        return False
    return True


EXAMPLES = {"text": '"a"', "whole number": "2", "number": "0.75", "true or false": "true"}
SIGNS = {"≥": (0, -1), ">": (1e-6, 0), "≤": (0, 1), "<": (-1e-6, 0)}  # from the limit to what is taken, and is not


def tried(said):
    """(a value, whether it must be taken) for what the page says of a key's values."""
    if said.startswith("`"):
        for one in said.split(" or "):
            yield one.strip("`"), True
            yield json.dumps(one.strip("`")), False  # quoted once more: 1 is taken, "1" is not
        return
    if said == "number or list of numbers":
        yield from (("0.75", True), ("[0.75, 2]", True), ('"1"', False), ('["1"]', False))
        return
    if said == "list of lists of 2 numbers":
        yield from (
            ("[[1.0, 2.0], [3.0, 4.0], [5.0, 0.0]]", True),
            ("[[1.0], [2.0], [3.0]]", False),
            ("[1.0, 2.0]", False),
        )
        return
    name, *limits = said.split(", ")
    many = re.fullmatch(r"list of (?:(\d+) )?(.*)s", name)
    if many:
        count, of = int(many[1] or 2), many[2]
        yield f"[{', '.join([EXAMPLES[of]] * count)}]", True
        yield EXAMPLES[of], False
        if many[1]:
            yield f"[{', '.join([EXAMPLES[of]] * (count + 1))}]", False
        for limit in limits:
            sign, end = limit.removeprefix("each ").split()
            taken, refused = (float(end) + step for step in SIGNS[sign])
            number = int if of == "whole number" else float
            yield f"[{', '.join([repr(number(taken))] * count)}]", True
            yield f"[{', '.join([repr(number(refused))] * count)}]", False
        return
    if name not in EXAMPLES:
        return
    yield {"text": "1", "whole number": "1.5", "number": '"1"', "true or false": "1"}[name], False
    if not limits:
        yield EXAMPLES[name], True
    for limit in limits:
        sign, end = limit.split()
        taken, refused = (float(end) + step for step in SIGNS[sign])
        number = int if name == "whole number" else float
        yield repr(number(taken)), True
        yield repr(number(refused)), False


PATTERNS = {"name", "target", "sensitive", "hold"}  # texts of a certain form, which their words describe
ROWS = list(rows())


def test_every_type_and_value_of_the_reference_is_tried():
    for heading, key, said, left_out, field in ROWS:
        assert "typing" not in said, (heading, key)
        values = dict(tried(said)) if key not in PATTERNS or said != "text" else {'"a"': key != "hold"}
        assert values or said == "tables of tables of numbers", (heading, key)
        assert {value: takes(field, value) for value in values} == values, (heading, key)
        if left_out.startswith("`"):
            assert takes(field, left_out.strip("`")), (heading, key)


def test_the_whole_page_is_tried():
    assert len(ROWS) > 100
    assert {heading for heading, *_ in rows()} >= {"`[data.columns]`", "`[capture]`", "`[capture.crop]`"}


def test_every_key_is_described():
    def fields(model):
        for field in model.model_fields.values():
            yield field
            for inner in members(field.annotation):
                yield from fields(inner)

    assert all(field.description for field in fields(Recipe))
