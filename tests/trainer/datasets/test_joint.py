"""Several attributes as one label: the joint classes that occur, what each is, and the lists that are refused."""

import numpy as np
import pytest

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer import datasets
from edgeveil.trainer.datasets import joint as joint_labels
from edgeveil.trainer.datasets.base import Known
from edgeveil.trainer.datasets.prior import med
from edgeveil.trainer.ext.sweep.axes import settings, with_settings
from edgeveil.trainer.recipe.schema import Recipe
from tests.support.small_runs import small_recipe, write_npz


def asked(**data):
    """The digits' codebook with other keys in [data], and a prior that is counted."""
    table = Recipe.find("digits-codebook").model_dump(exclude_none=True)
    table["data"].pop("family", None)
    return Recipe.check({**table, "data": {**table["data"], **data}, "prior": {"kind": "counted"}})


TWO = ["parity", "less-than-five"]


def test_y_is_the_joint_class_and_each_class_has_its_attributes():
    found = datasets.load(asked(target=TWO, sensitive="digit"))
    digit, joint = found.z, found.joint["y"]
    assert found.y_names == (
        "even and below-five", "even and five-or-more", "odd and below-five", "odd and five-or-more",
    )  # fmt: skip
    assert (found.y == 2 * (digit % 2) + (digit >= 5)).all()
    assert joint.names == tuple(TWO)
    assert set(found.joint) == {"y"}
    for (name, classes), values in zip(joint, (digit % 2, digit >= 5), strict=True):
        assert (classes.sum(axis=1) == 1).all()
        assert (classes[found.y].argmax(axis=1) == values).all(), name
    training = found.for_training()
    assert training.joint is found.joint
    assert np.allclose(found.theta[0][[0, 2, 4]].sum(), 1)  # even and below five


def test_only_joint_classes_that_occur_are_classes():
    found = datasets.load(asked(target=["less-than-five", "parity"], sensitive="digit"))
    labels = {"a": Known(np.array([0, 1, 1]), ("x", "y")), "b": Known(np.array([0, 0, 1]), ("s", "t"))}
    label, joint = joint_labels.joint_of(labels)
    assert label.names == ("x and s", "y and s", "y and t")
    assert joint.of.tolist() == [[0, 0], [1, 0], [1, 1]]
    assert found.y_names[1] == "below-five and odd"


def test_z_is_joint_too_and_its_prior_may_be_partial():
    table = asked(target="parity", sensitive=["less-than-five", "digit"]).model_dump(exclude_none=True)
    table["prior"] = {"kind": "table", "table": {"even": {"below-five and 0": 0.3, "below-five": 0.7}}}
    found = datasets.load(Recipe.check(table))
    assert len(found.z_names) == 10
    assert np.allclose(found.theta[0], [0.3, *[0.1] * 4, *[0.06] * 5], atol=1e-6)
    assert np.allclose(found.theta[1], 0.1)


def test_a_prior_of_two_attributes_is_the_one_of_most_entropy():
    labels = {"a": Known(np.array([0, 0, 1, 1]), ("x", "y")), "b": Known(np.array([0, 1, 0, 1]), ("s", "t"))}
    label, joint = joint_labels.joint_of(labels)
    names = {"y_names": ("k",), "z_names": label.names, "joint": joint}
    assert np.allclose(med({"k": {"x": 0.8, "s": 0.5}}, **names), [0.4, 0.4, 0.1, 0.1])  # independent
    assert np.allclose(med({"k": {"x": 0.0}}, **names), [0, 0, 0.5, 0.5])
    with pytest.raises(BadInput, match=r'"k" cannot hold as a whole \(P\(x\) = 0.8, P\(x and s\) = 0.9\)'):
        med({"k": {"x": 0.8, "x and s": 0.9}}, **names)
    with pytest.raises(BadInput, match='names the z "u"; the classes of z are "x and s"'):
        med({"k": {"u": 0.8}}, **names)


def test_one_name_and_a_list_of_one_are_the_same():
    one, listed = asked(target="parity"), asked(target=["parity"])
    assert one == listed
    assert datasets.load(one).joint == {}
    assert 'target = "parity"' in listed.toml()


def test_lists_survive_writing_and_are_set_from_the_command_line():
    recipe = asked(target=TWO, sensitive="digit")
    assert Recipe.parse(recipe.toml()) == recipe
    given = ["data.target=parity,less-than-five", 'data.sensitive=["digit"]']
    assert with_settings(asked(), settings(given)).data == recipe.data


@pytest.mark.parametrize(
    ("data", "match"),
    [
        ({"target": ["parity", "parity"]}, '`data.target`: expected each attribute once; "parity" is listed 2 times'),
        ({"target": TWO}, 'other attributes in `sensitive` than in `target`: "less-than-five" is in both'),
        ({"target": []}, "`data.target`: expected 1 to 8 names"),
        ({"target": ["parity", 3]}, "`data.target`: expected 1 to 8 names"),
        ({"target": ["parity", "digitt"]}, 'no label "digitt" in these data .did you mean "digit"'),
        ({"sensitive": ["digit", "age"]}, '`data.sensitive`: there is no label "age" in these data'),
    ],
)
def test_lists_that_cannot_be_get_one_sentence(data, match):
    with pytest.raises(BadInput, match=match):
        datasets.load(asked(**data))


def small(path, **data):
    """A recipe for an .npz with keys of [data]."""
    return small_recipe(path, data={"source": f"npz:{path}", "target": "y", "sensitive": "z", **data})


def test_the_first_name_of_own_arrays_is_y_and_the_others_are_labels(tmp_path):
    side = np.random.default_rng(1).integers(0, 2, 300)
    path = write_npz(tmp_path, label_side=np.where(side, "left", "right"))
    found = datasets.load(small(path, target=["count", "side"]))
    assert found.y_names == ("0 and left", "0 and right", "1 and left", "1 and right")
    assert (found.joint["y"].of[found.y][:, 1] == 1 - side).all()


def test_rare_joint_classes_and_what_y_tells_are_refused(tmp_path):
    rare = np.zeros(300, int)
    rare[:5] = 1
    y = np.load(write_npz(tmp_path))["y"]
    path = write_npz(tmp_path, label_rare=rare, label_copy=y)
    with pytest.raises(BadInput, match=r'y "0 and 1" has [0-9]+ rows; at least 15 are needed'):
        datasets.load(small(path, target=["count", "rare"]))
    with pytest.raises(BadInput, match='"copy" follows from the target "count"'):
        datasets.load(small(path, target="count", sensitive=["z", "copy"]))


def test_more_classes_than_a_bundle_names_and_names_that_meet_are_refused(monkeypatch, tmp_path):
    path = write_npz(tmp_path, label_side=np.arange(300) % 2)
    monkeypatch.setattr(joint_labels, "MOST_CLASSES", 3)
    with pytest.raises(BadInput, match="count and side occur in 4 joint classes, and a bundle names at most 3"):
        datasets.load(small(path, target=["count", "side"]))
    with pytest.raises(BadInput, match="two joint classes have one name"):
        joint_labels._check(("a and b and c", "a and b and c"), "target", ["x", "y"])


def test_columns_of_a_table_are_named_by_also(tmp_path):
    rng = np.random.default_rng(0)
    count, side, group = rng.integers(0, 2, (3, 300))
    rows = [f"{a},{b},{c},{x:.3f}" for a, b, c, x in zip(count, side, group, rng.normal(size=300), strict=True)]
    (tmp_path / "a.csv").write_text("\n".join(["Count,Side,group,x", *rows]))
    source = {"source": f"csv:{tmp_path / 'a.csv'}", "target": ["count", "side"], "sensitive": "group"}
    columns = {"target": "Count", "sensitive": "group", "also": {"side": "Side"}}
    found = datasets.load(small_recipe("", data={**source, "columns": columns}))
    assert (found.y == 2 * count + side).all()
    assert found.input.shape == (1,)
    without = {**columns, "also": {}, "leave_out": ["Side"]}
    with pytest.raises(BadInput, match='no label "side" in these data; there are "count", "group"'):
        datasets.load(small_recipe("", data={**source, "columns": without}))
