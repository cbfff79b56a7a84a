"""The cleaner as a graph: float32 against float64, through a save and a load."""

import numpy as np
import pytest

from edgeveil.trainer.linear import algorithm1
from edgeveil.trainer.measures.predictor_metrics import e_utility, promised


@pytest.mark.parametrize(("features", "wanted"), [(30, 1), (30, 5), (16, 13)])
def test_graph_keeps_the_promise(tmp_path, features, wanted):
    import keras

    from edgeveil.models.cleaners import linear_cleaner

    rng = np.random.default_rng(0)
    a_d, a_c = rng.normal(size=(features, wanted)) / features, rng.normal(size=(features, 3))
    x = rng.normal(size=(400, features)).astype(np.float32)
    x[0] = 0
    x[1] *= 1e-12
    x[2] *= 100
    cleaner = algorithm1(a_d, a_c, eps=0.01 * wanted)
    linear_cleaner(cleaner.encoder, cleaner.decoder, cleaner.eps).save(tmp_path / "cleaner.keras")
    graph = keras.models.load_model(tmp_path / "cleaner.keras")
    assert [t.name for t in graph.inputs] == ["features"]
    assert graph.output_names == ["output", "code"]
    out = dict(zip(graph.output_names, graph.predict(x, verbose=0), strict=True))
    assert out["code"].shape == (400, wanted)
    assert out["output"].shape == (400, features)
    error = np.abs(e_utility(a_d, x, out["output"]) - promised(a_d, x, cleaner.eps))
    assert error.max() <= 1e-5
    np.testing.assert_allclose(out["code"] @ cleaner.decoder.T, out["output"], atol=2e-4)


def test_nothing_in_it_trains():
    from edgeveil.models.cleaners import linear_cleaner

    assert linear_cleaner(np.eye(4, 2), np.eye(4, 2), 0.1).trainable_variables == []
