"""Values are unbiased: their exact expectation under a mechanism's law is the truth; and only its reports are taken."""

import itertools

import numpy as np
import pytest

from edgeveil.edge_runtime.pipeline.mechanisms import categories, duchi_cube
from edgeveil.trainer.ext.local import reporting as decoders
from edgeveil.trainer.ext.local.reporting import reporting
from tests.support.promised import collector_bundles as reports
from tests.support.promised import local_examples


def test_a_channel_is_inverted_exactly():
    table = local_examples.channel(6, 0.7)
    decoder = decoders.channel(table)
    law = table / 2.0**32
    assert law @ decoder.values(np.arange(6)) == pytest.approx(np.eye(6), abs=1e-9)
    assert decoder.made(np.array([-1, 0, 5, 6])).tolist() == [False, True, True, False]


def test_a_channel_with_more_letters_than_categories():
    law = np.array([[8, 4, 4], [2, 2, 12]], np.uint32)
    assert law / 16 @ decoders.channel(law).values(np.arange(3)) == pytest.approx(np.eye(2))
    with pytest.raises(np.linalg.LinAlgError):
        decoders.channel(np.full((2, 2), 8, np.uint32))


def test_expected_bits_are_the_category():
    decoder = decoders.unary(3, 0.5, 0.2)
    expected = np.full((3, 3), 0.2) + 0.3 * np.eye(3)
    assert decoder.values(expected) == pytest.approx(np.eye(3))
    assert decoder.made(np.array([[0, 1, 1], [0, 2, 0], [-1, 0, 0]])).tolist() == [True, False, False]
    assert decoder.spread == pytest.approx([1 / 0.3] * 3)
    assert decoder.spread_up_to == pytest.approx([1 / 0.3, 2 / 0.3, 3 / 0.3])


def test_every_row_and_coin_of_the_shipped_hadamard_response():
    p, rows = 0.73, 8
    decoder = decoders.hadamard(rows, p)
    for category in range(rows):
        mean = np.zeros(rows)
        for row, coin in itertools.product(range(rows), (False, True)):
            report = categories.hadamard(np.array([category]), np.array([row]), np.array([coin]), rows)
            assert decoder.made(report).all()
            mean += (p if coin else 1 - p) / rows * decoder.values(report)[0]
        assert mean == pytest.approx(np.eye(rows)[category])
    assert decoder.made(np.array([16])).tolist() == [False]


def test_bits_that_are_made_noisy_twice(tmp_path):
    manifest, members = local_examples.example("rappor", 2.0)
    draws = [local_examples.draw(name, "coin", [4], numerator=n) for name, n in (("one", 3 * 2**60), ("zero", 2**60))]
    again = {"stage": "mechanism", "op": "rappor-again", "input": "report", "noise": ["one", "zero"], "output": "again"}
    manifest["stages"] += [*draws, again]
    manifest["outputs"][0]["tensor"] = "again"
    for name in ("one", "zero"):
        members[f"golden/draws.{name}.npy"] = reports.bundles.npy(np.zeros((4, 4), bool))
        manifest["golden"]["draws"][name] = f"golden/draws.{name}.npy"
    members["golden/numpy.report.npy"] = reports.bundles.npy(np.zeros((4, 4), np.int8))
    decoder = reporting(reports.opened(reports.bundles.make_bundle(tmp_path, example=(manifest, members)))).decoder
    p, q = (stage["numerator"] / 2**62 for stage in manifest["stages"][2:4])
    expected = (lambda b: b * 0.75 + (1 - b) * 0.25)(q + (p - q) * np.eye(4))
    assert decoder.values(expected) == pytest.approx(np.eye(4))


@pytest.mark.parametrize("d", [1, 2, 3])
def test_the_shipped_cube_over_every_draw(tmp_path, d):
    bundle = reports.opened(reports.made(tmp_path, "duchi-linf", alpha=1.3, d=d))
    decoder = reporting(bundle).decoder
    p = local_examples.coin(1.3) / 2**62
    for corner in itertools.product((0, 1), repeat=d):
        u = np.array([corner], np.float32)
        mean = np.zeros(d)
        for bits, coin in itertools.product(range(2 ** (d + 1 - d % 2)), (False, True)):
            words = np.full((1, (d + 1) // 2), 1, np.uint32)
            report = duchi_cube.report(u, words, np.array([[bits]], np.uint32), np.array([coin]))
            assert decoder.made(report).all()
            mean += (p if coin else 1 - p) / 2 ** (d + 1 - d % 2) * decoder.values(report)[0]
        assert mean == pytest.approx(16.0 * np.array(corner), abs=1e-4)


@pytest.mark.parametrize(
    ("op", "good", "bad"),
    [
        ("duchi-linf", [1, -1, 1, 1], [[1, 0, 1, 1], [-128, 1, 1, 1]]),
        ("duchi-l2", [0.5, 0.5, -0.5, 0.5], [[0.5, 0.5, 0.5, 0.51], [np.nan, 0, 0, 1], [np.inf, 0, 0, 0]]),
        ("laplace", [2**24, 0, -(2**24), 5], [[2**24 + 1, 0, 0, 0], [-(2**31), 0, 0, 0]]),
        (
            "hybrid",
            [0, 0, 0, 0, 0, 0, 0, 1],
            [[0, 0, 0, 0, 0, 0, 1, 1], [0, 0, 0, 0, 0, 0, 0, 2], [-(2**31), *[0] * 7]],
        ),
    ],
)
def test_only_what_the_mechanism_makes_is_taken(tmp_path, op, good, bad):
    found = reporting(reports.opened(reports.made(tmp_path, op)))
    dtype = found.output.dtype
    assert found.decoder.made(np.array([good], dtype)).tolist() == [True]
    assert found.decoder.made(np.array(bad, dtype)).tolist() == [False] * len(bad)
