"""What is priced: the joint of the finest labels, whatever it was asked for as; and what cannot be."""

import numpy as np
import pytest

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer import datasets
from edgeveil.trainer.datasets.base import Known
from edgeveil.trainer.datasets.joint import finest
from edgeveil.trainer.measures.certificate import count, information
from edgeveil.trainer.recipe.schema import Recipe
from edgeveil.trainer.recipe.training_sections import TrainingPrior


def asked(**data):
    """The digits' codebook with other keys in [data]."""
    table = Recipe.find("digits-codebook").model_dump(exclude_none=True)
    drop = [key for key in data if data[key] is None]
    table["data"] = {key: value for key, value in {**table["data"], **data}.items() if key not in drop}
    return Recipe.check(table)


def test_left_out_z_alone_is_priced():
    found = datasets.load(asked(family=None, also_sensitive=None))
    assert found.priced is None
    assert found.as_priced() is found


@pytest.mark.parametrize("data", [{"family": "finest"}, {"family": "thresholds"}, {"also_sensitive": ["digit"]}])
def test_families_of_less_than_five_all_price_the_digit(data):
    found = datasets.load(asked(**data))
    assert found.z_names == ("below-five", "five-or-more")
    priced = found.as_priced()
    assert len(priced.z_names) == 10
    assert (priced.z == found.known["digit"].values).all() or data.get("family") is None
    assert np.allclose(priced.theta.sum(axis=1), 1)
    assert (priced.theta[0] > 0).tolist() == [digit % 2 == 0 for digit in range(10)]
    training = found.for_training()
    assert (training.as_priced().z == priced.z[np.sort(found.slices.training())]).all()


def test_no_code_tells_more_about_a_grouping_than_about_the_label():
    found = datasets.load(asked(family="groupings"))
    digit, rng = found.as_priced().z, np.random.default_rng(0)
    code = (digit + rng.integers(0, 4, len(digit))) % 5
    whole = information(count(found.y, code, digit, shape=(2, 5, 10)))
    for _ in range(20):
        grouping = rng.integers(0, 2, 10)[digit]
        assert information(count(found.y, code, grouping, shape=(2, 5, 2))) <= whole + 1e-12


@pytest.mark.parametrize(
    ("data", "match"),
    [
        ({"also_sensitive": ["age"]}, 'no label "age" in these data; there are "parity", "less-than-five"'),
        ({"also_sensitive": ["parity"]}, '"parity" follows from the target "parity"'),
        ({"sensitive": []}, "`data.sensitive`"),
        ({"family": "all"}, "`data.family`"),
    ],
)
def test_what_cannot_be_priced_gets_one_sentence(data, match):
    with pytest.raises(BadInput, match=match):
        datasets.load(asked(**data))


def test_thresholds_need_an_order_and_a_joint_label_rows(tmp_path):
    rng = np.random.default_rng(0)
    n = 900
    z, fine = rng.integers(0, 2, n), rng.permutation(n) // 2
    arrays = {"x": rng.random((n, 4)), "y": rng.integers(0, 2, n), "z": z, "label_kind": np.where(z, "b", "a")}
    np.savez(tmp_path / "a.npz", **arrays)
    source = f"npz:{tmp_path / 'a.npz'}"

    def load(**data):
        recipe = asked(source=source, target="y", sensitive="z", **data)
        return datasets.load(recipe.model_copy(update={"prior": TrainingPrior(kind="counted")}))

    with pytest.raises(BadInput, match='thresholds" are of labels with an order, and "kind" has none'):
        load(also_sensitive=["kind"], family="thresholds")
    no_finer = '"z" has two classes and no label in these data is finer, so it has no other groupings: add a finer'
    with pytest.raises(BadInput, match=no_finer):
        load(family="groupings")
    assert load(family="finest").as_priced().z_names == ("0", "1")
    np.savez(tmp_path / "a.npz", **arrays, label_row=2 * fine + z)
    with pytest.raises(BadInput, match="too many for the 225 rows"):
        load(family="finest")


def test_a_kind_that_prices_nothing_says_so():
    table = Recipe.find("digits-laplace").model_dump(exclude_none=True)
    table["data"]["family"] = "finest"
    with pytest.raises(BadInput, match="codebook, minimax and prgan hide more than one"):
        Recipe.check(table)


def test_the_finest_of_labels_that_are_the_same_is_the_one_asked_for():
    values = np.array([0, 1, 0, 1])
    names = ("a", "b")
    assert finest("z", {"copy": Known(1 - values, names), "z": Known(values, names)}) == "z"
