"""Bundles that promise more privacy than their integers give, each truly signed by a trusted key."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.hostile_bundles.museum import changed, exhibit, exhibits
from tests.support import bundles
from tests.support.promised import local_examples as local


def _promised(op: str, change: Callable[[Any], object]) -> bytes:
    return changed(change, example=local.example(op))


def _made(manifest: Any, output: str) -> Any:
    return next(stage for stage in manifest["stages"] if stage.get("output") == output)


def _sent(manifest: Any, tensor: str, shape: list[int], dtype: str) -> None:
    """A second output, with golden vectors that it would have."""
    manifest["outputs"].append({"name": "second", "kind": "code", "tensor": tensor, "shape": shape, "dtype": dtype})
    manifest["golden"]["outputs"]["numpy"]["second"] = "golden/numpy.report.npy"


exhibits(
    None,
    (
        "spending-mismatch",
        "coin_one_unit_in_the_last_place_too_fair_to_the_truth",
        lambda: _promised("duchi-linf", lambda m: _made(m, "turn").update(numerator=local.coin(1.0) + 1)),
    ),
    (
        "spending-mismatch",
        "promise_of_one_step_less",
        lambda: _promised("hybrid", lambda m: m["spending"].update(micro_epsilon=999_999)),
    ),
    (
        "spending-mismatch",
        "laplace_noise_of_a_smaller_scale",
        lambda: _promised("laplace", lambda m: _made(m, "steps").update(denominator=1025)),
    ),
    (
        "spending-mismatch",
        "window_of_one_place_less",
        lambda: _promised("hybrid", lambda m: _made(m, "within").update(bound=_made(m, "within")["bound"] - 1)),
    ),
)


@exhibit("spending-mismatch")
def channel_with_a_zero() -> bytes:
    manifest, members = local.example("k-rr")
    table = local.channel(4, 1.0)
    table[0, 0] += table[0, 1]
    table[0, 1] = 0
    return changed(lambda m: None, example=(manifest, {**members, "tables/q.npy": bundles.npy(table)}))


@exhibit("spending-mismatch")
def two_reports_for_the_price_of_one() -> bytes:
    def second(manifest: Any) -> None:
        made = [dict(stage) for stage in manifest["stages"] if stage["stage"] in ("draw", "mechanism")]
        for stage in made:
            stage["output"] += "2"
            if "noise" in stage:
                stage["noise"] = [name + "2" for name in stage["noise"]]
        manifest["stages"] += made
        draws = manifest["golden"]["draws"]
        draws.update({name + "2": file for name, file in list(draws.items())})
        _sent(manifest, "report2", [4], "int8")

    return _promised("duchi-linf", second)


@exhibit("uncovered")
def label_beside_its_noisy_self() -> bytes:
    return _promised("k-rr", lambda m: _sent(m, "label", [], "int64"))


@exhibit("uncovered")
def promise_of_a_perturber_without_noise() -> bytes:
    spending = {"micro_epsilon": 1, "unit": "release", "most_micro_epsilon": 1, "period_s": None}
    return changed(lambda m: m.update(spending=spending), example=bundles.numpy_example())


@exhibit("wrong-value")
def lots_that_leave() -> bytes:
    return _promised("duchi-linf", lambda m: _sent(m, "fair", [1], "int64"))


@exhibit("wrong-value")
def lots_into_a_model() -> bytes:
    def feed(manifest: Any) -> None:
        fair = {"stage": "draw", "distribution": "words", "output": "fair", "shape": [16]}
        manifest["stages"].insert(1, fair)
        manifest["stages"][3]["inputs"]["noise"] = "fair"

    return changed(feed, example=bundles.artefact_example(audited=False))


@exhibit("wrong-value")
def report_into_a_model() -> bytes:
    def feed(manifest: Any) -> None:
        manifest["input"].update(kind="vector", shape=[16])
        manifest["stages"][1:2] = local.stages("duchi-linf", 1.0, 16)
        manifest["stages"][-2]["inputs"]["noise"] = "report"

    return changed(feed, example=bundles.artefact_example(audited=False))


@exhibit("wrong-value")
def even_vector_without_its_dummy() -> bytes:
    return _promised("duchi-linf", lambda m: _made(m, "report").update(places=4))


@exhibit("wrong-value")
def frame_of_a_picture_as_a_vector() -> bytes:
    def picture(manifest: Any) -> None:
        manifest["input"].update(kind="image", shape=[2, 2, 1])

    return _promised("duchi-linf", picture)


@exhibit("wrong-value")
def steps_where_lots_belong() -> bytes:
    steps = {"distribution": "laplace", "numerator": 1, "denominator": 1}
    return _promised("duchi-linf", lambda m: _made(m, "fair").update(steps))


@exhibit("reused-noise")
def two_mechanisms_with_one_coin() -> bytes:
    def again(manifest: Any) -> None:
        manifest["stages"].append({**manifest["stages"][-1], "output": "report2"})

    return _promised("duchi-linf", again)


exhibits(
    None,
    (
        "unsupported-stage",
        "mechanism_of_tomorrow",
        lambda: _promised("oue", lambda m: _made(m, "report").update(op="shuffle")),
    ),
    (
        "unsupported-stage",
        "draw_of_tomorrow",
        lambda: _promised("oue", lambda m: _made(m, "own").update(distribution="quantum")),
    ),
    ("unknown-key", "promise_with_an_unknown_key", lambda: _promised("oue", lambda m: m["spending"].update(delta=0))),
    ("missing-key", "promise_without_its_unit", lambda: _promised("oue", lambda m: m["spending"].pop("unit"))),
    ("unknown-key", "coin_with_a_seed", lambda: _promised("oue", lambda m: _made(m, "own").update(seed=1))),
    (
        "bad-value",
        "coin_that_always_falls_the_same_way",
        lambda: _promised("oue", lambda m: _made(m, "own").update(numerator=2**62)),
    ),
    ("wrong-type", "promise_of_nothing", lambda: _promised("oue", lambda m: m.update(spending=None))),
    (
        "bad-value",
        "promise_whose_cap_is_below_one_release",
        lambda: _promised("oue", lambda m: m["spending"].update(most_micro_epsilon=1)),
    ),
)


@exhibit("wrong-value")
def table_of_a_channel_that_is_no_array() -> bytes:
    manifest, members = local.example("k-rr")
    return changed(lambda m: None, example=(manifest, {**members, "tables/q.npy": np.ones((4, 4)).tobytes()}))


def _deleted(stage: dict[str, Any]) -> bytes:
    """A bundle of 0.2 with a stage of a training by rounds."""
    return changed(lambda m: m["stages"].insert(1, stage), example=local.example("duchi-linf"))


@exhibit("unsupported-stage")
def parameters_of_a_training_round() -> bytes:
    return _deleted({"stage": "parameters", "output": "theta", "shape": [2], "most": 1.0})


@exhibit("unsupported-stage")
def gradient_of_a_training_round() -> bytes:
    ends = {"low": 0.0, "high": 1.0, "output": "g"}
    return _deleted({"stage": "gradient", "loss": "logistic", "input": "u", "parameters": "theta", "clip": 1.0, **ends})
