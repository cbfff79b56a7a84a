"""The kind local from recipe to board: promised, exported, run, decoded; and what bad input gets."""

import json

import numpy as np
import pytest

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.manifest.manifest import parse
from edgeveil.edge_runtime.pipeline.pipeline import load_pipeline
from edgeveil.edge_runtime.stages.mechanism import likely, odds
from edgeveil.trainer.audit.sections import spending_section
from edgeveil.trainer.audit.subject import bottleneck
from edgeveil.trainer.datasets.base import InputSpec
from edgeveil.trainer.export.export import export
from edgeveil.trainer.perturbers import local
from edgeveil.trainer.perturbers.local import Local
from edgeveil.trainer.runs.fitted import FittedPerturber, decoded
from edgeveil.trainer.train import train
from tests.support.once import nightly_but
from tests.support.small_runs import FEATURES, small_recipe, write_npz

CODES = {"keep": ["pixels"], "codes": 2, "steps": 20, "fewest_subjects": 2}
SPENDING = {"unit": "subject", "most": 3.0, "period_s": 3600}


def recipe(path, perturber, **sections):
    data = {"source": f"npz:{path}", "target": "y", "sensitive": "z", "low": -8, "high": [8] * FEATURES}
    return small_recipe(path, **{"data": data, "perturber": perturber, "spending": SPENDING, "floor": 0.01, **sections})


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Trains a section; D_y and D_z, which depend on none, once."""
    path, lent = write_npz(tmp_path_factory.mktemp("local")), []

    def run(section, folder, **sections):
        made = train(recipe(path, section, **sections), folder / "run", classifiers=lent[0] if lent else None)
        lent.append(made.folder)
        return made

    return run


@pytest.mark.parametrize("mechanism", ["duchi-linf", "hybrid"])
def test_a_vectors_report_is_unbiased_as_exported(trained, tmp_path, mechanism, capfd):
    section = {"kind": "local", "of": "reading", "mechanism": mechanism, "epsilon": 1.0}
    run = trained(section, tmp_path)
    assert "Expected error of the mean" in capfd.readouterr().err
    assert run.facts["spending"]["micro_epsilon"] == 1_000_000
    assert set(run.facts["spending"]["expected_error"]) == {"1000", "10000", "100000"}
    exported = export(run.folder, ["coral-dev-board"], tmp_path / "export")
    claim = {"micro_epsilon": 1_000_000, "unit": "subject", "most_micro_epsilon": 3_000_000, "period_s": 3600}
    assert exported.manifest["spending"] == claim
    x = np.repeat(np.linspace(-9, 7, FEATURES, dtype=np.float32)[None], 40_000, axis=0)  # -9 is clipped to -8
    sent = load_pipeline(parse(exported.manifest), exported.members, "numpy").run(x)["report"]
    found = decoded(sent, np.load(tmp_path / "export" / "tables" / "decoder.npy")).astype(np.float64)
    z = (found.mean(axis=0) - np.clip(x[0], -8, 8)) / (found.std(axis=0) / np.sqrt(len(x)))
    assert np.abs(z).max() < 6


@pytest.mark.parametrize("mechanism", nightly_but(("k-rr", "oue", "hrr", "cms", "hcms"), "k-rr", "cms"))
def test_a_class_is_reported_and_decoded(trained, tmp_path, mechanism):
    section = {"kind": "local", "of": "label", "mechanism": mechanism, "epsilon": 2.0}
    run = trained(section, tmp_path)
    fitted = run.perturber()
    assert fitted.spending["micro_epsilon"] in (1_999_999, 2_000_000)
    assert isinstance(bottleneck(fitted.description(), dict(fitted.tables)), str) == (mechanism != "k-rr")
    exported = export(run.folder, ["coral-dev-board"], tmp_path / "export")
    assert [output["name"] for output in exported.manifest["outputs"]] == ["report"]
    assert fitted.frames(run.validation().x).shape == (len(run.validation()), FEATURES)


def test_an_epsilon_behind_a_class_covers_all_that_leaves(trained, tmp_path):
    section = {"kind": "label-only", "epsilon": 1.0}
    run = trained(section, tmp_path, epochs=30)
    fitted = run.perturber()
    found = spending_section.section(fitted.description(), dict(fitted.tables), of="z", from_training=False)
    claim, recomputed, enumerated = found
    assert recomputed.value <= 1.0 == claim.value
    assert enumerated.value == pytest.approx(1.0, abs=1e-6)
    assert "alpha = 1, checked by the runtime" in claim.text
    assert "releases of one subject add up, and the ledger stops them at 3 in 3600 s" in claim.text
    export(run.folder, ["coral-dev-board"], tmp_path / "export")
    assert bottleneck(fitted.description(), dict(fitted.tables)).hidden_label


@pytest.mark.nightly  # by day a reading and a class, above
def test_a_code_of_a_codebook_is_reported(trained, tmp_path):
    codebook = {"kind": "codebook", **CODES}
    section = {"kind": "local", "of": "code", "mechanism": "oue", "epsilon": 1.0, "codebook": codebook}
    run = trained(section, tmp_path, epochs=3)
    assert run.perturber().outputs[0]["shape"] == [4]
    export(run.folder, ["coral-dev-board"], tmp_path / "export")


def test_nothing_is_promised_where_something_else_leaves():
    section = Local(kind="local", of="reading", mechanism="duchi-linf", epsilon=1.0)
    fitted = local.reading(section, InputSpec("vector", (2,), "float32", (0.0, 0.0), (1.0, 1.0)))
    facts = json.loads(json.dumps(fitted.description()))
    facts["outputs"].append({"name": "raw", "kind": "code", "tensor": "u"})
    assert spending_section.section(facts, dict(fitted.tables), of="z", from_training=False) == []


def test_a_smaller_radius_is_a_smaller_range_with_less_noise():
    spec = InputSpec("vector", (1,), "float32", (0.0,), (4.0,))
    half = local.within(spec, 0.5)
    assert (half.low, half.high) == ((1.0,), (3.0,))


def test_automatic_is_randomised_response_for_few():
    assert local.automatic(10, 1.0) == "k-rr"
    assert local.automatic(11, 1.0) == "oue"
    assert local.automatic(4096, 1.0) == "oue"
    assert local.automatic(4097, 1.0) == "cms"


def test_a_coin_never_costs_more_than_alpha():
    for alpha in (0.1, 1.0, 20.0):
        p = likely(odds(alpha))
        assert p / (2**62 - p) <= np.exp(alpha) * (1 + 1e-15)


LABEL = {"kind": "local", "of": "label", "mechanism": "k-rr", "epsilon": 1.0}
READING = {"kind": "local", "of": "reading", "mechanism": "duchi-linf", "epsilon": 1.0}


@pytest.mark.parametrize(
    ("perturber", "says"),
    [
        ({**LABEL, "epsilon": 0}, "`perturber.epsilon`: expected greater than 0; got 0"),
        ({**LABEL, "epsilon": float("inf")}, "`perturber.epsilon`: expected a finite number"),
        ({**LABEL, "epsilon": 21.0}, "`perturber.epsilon`: expected less than or equal to 20; got 21.0"),
        ({**READING, "radius": 0.0}, "`perturber.radius`: expected greater than 0"),
        ({**LABEL, "radius": 2.0}, "no `radius`"),
        ({**LABEL, "mechanism": "duchi-linf"}, 'with `of = "label"`; got "duchi-linf"'),
        ({**LABEL, "of": "code"}, "a section \\[perturber.codebook\\]"),
        ({"kind": "label-only", "epsilon": -1.0}, "`perturber.epsilon`: expected greater than 0"),
        ({"kind": "label-only"}, "no \\[spending\\]"),
        ({**LABEL, "epsilon": 4.0}, "`spending.most` of at least one release"),
    ],
)
def test_bad_sections_get_one_sentence(tmp_path, perturber, says):
    with pytest.raises(BadInput, match=says) as caught:
        recipe(tmp_path / "none.npz", perturber)
    assert "\n" not in str(caught.value)


def test_an_epsilon_without_spending_is_refused(tmp_path):
    with pytest.raises(BadInput, match="a section \\[spending\\]"):
        recipe(tmp_path / "none.npz", LABEL, spending=None)


@pytest.mark.parametrize("k", [1, 4097])
@pytest.mark.parametrize(("name", "once"), [("k-rr", None), ("rappor", 0.5)])
def test_too_few_and_too_many_categories_are_refused(name, once, k):
    with pytest.raises(BadInput, match=f"{name} takes 2 to 4096 categories; got {k}"):
        local.of_category(name, "label", k, 1.0, once=once)


@pytest.mark.parametrize("name", ["cms", "hcms", "auto"])
def test_a_sketch_takes_a_million_categories_and_no_more(name):
    made = local.of_category(name, "label", 2**20, 1.0, seed=5)
    assert made.stages[-1]["categories"] == 2**20
    assert made.stages[-1]["seed"] == 5
    with pytest.raises(BadInput, match="takes 2 to 1048576 categories; got 1048577"):
        local.of_category(name, "label", 2**20 + 1, 1.0)


def test_pictures_and_too_many_values_have_no_reading():
    section = Local(kind="local", of="reading", mechanism="duchi-linf", epsilon=1.0)
    with pytest.raises(BadInput, match='take of = "label"'):
        local.reading(section, InputSpec("image", (8, 8, 1), "uint8", 0.0, 255.0))
    with pytest.raises(BadInput, match="at most 4096 values, and a reading has 4097"):
        local.reading(section, InputSpec("vector", (4097,), "float32", (0.0,) * 4097, (1.0,) * 4097))


def test_it_is_read_back_with_its_promise(tmp_path):
    section = Local(kind="local", of="reading", mechanism="laplace", epsilon=1.0)
    fitted = local.reading(section, InputSpec("vector", (2,), "float32", (0.0, 0.0), (1.0, 1.0)))
    fitted.save(tmp_path)
    assert FittedPerturber.load(tmp_path).description() == json.loads(json.dumps(fitted.description()))
