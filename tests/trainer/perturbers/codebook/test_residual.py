"""Residual codes: what z explains is taken off, what is left is kept, and no row's own z can be learned by heart."""

import numpy as np

from edgeveil.trainer.measures.certificate import count, information
from edgeveil.trainer.perturbers.codebook import training
from tests.support import seeds


def tangled(n: int, *, seed: int, z_classes: int = 8):
    """T (n, 2): its first part is free of z but for a shift by z that is twice its own spread; y a coin.

    P(cell) is sure of z nine times in ten, and wrong else.
    """
    rng = np.random.default_rng(seed)
    y, z = rng.integers(0, 2, n), rng.integers(0, z_classes, n)
    shift = 2.0 * np.random.default_rng(7).normal(size=(2, z_classes, 2))
    free = rng.normal(size=(n, 2))
    kept = free + shift[y, z]
    said = np.where(rng.random(n) < 0.1, rng.integers(0, z_classes, n), z)
    posterior = np.full((n, 2 * z_classes), 0.1 / (2 * z_classes))
    posterior[np.arange(n), y * z_classes + said] += 0.9
    return kept, posterior, y, z, free


def learned(rows, **settings):
    kept, posterior, y, z, _ = rows
    normal = training.usual(kept, y, z, shrinkage=4.0)
    settings = {"codes": 4, "classes": 2, "price": 1.0, "shrinkage": 4.0, "rng": np.random.default_rng(0), **settings}
    return training.learn(kept, posterior, y, z, normal, **settings)


def judged(scores, rows) -> tuple[float, float]:
    """Bits about z beyond y, and the correlation of the free part of T with its mean in each code; on new rows."""
    kept, posterior, y, z, free = rows
    code = 4 * y + scores(kept, posterior).reshape(len(y), 2, 4)[np.arange(len(y)), y].argmax(axis=1)
    means = np.bincount(code, free[:, 0], 8) / np.maximum(np.bincount(code, minlength=8), 1)
    return information(count(y, code, z, shape=(2, 8, 8))), float(np.corrcoef(means[code], free[:, 0])[0, 1])


def test_codes_keep_what_z_does_not_explain_and_hold_on_new_rows():
    scores, fresh = learned(tangled(1500, seed=0)), tangled(20_000, seed=1)
    bits, kept = judged(scores, fresh)
    assert bits < 0.06
    assert kept > 0.55
    # The same without taking off what is usual for z: nearly everything leaks.
    flat = training.Usual(np.zeros((16, 2)), np.ones((16, 2)), np.repeat([0, 1], 8), np.tile(np.arange(8), 2))
    rows = tangled(1500, seed=0)
    plain = training.learn(*rows[:4], flat, codes=4, classes=2, price=0.0, shrinkage=4.0, rng=np.random.default_rng(0))
    assert judged(plain, fresh)[0] > 0.5


def test_a_price_buys_bits():
    rows, fresh = tangled(3000, seed=2), tangled(20_000, seed=3)
    free, priced = (judged(learned(rows, price=price), fresh) for price in (0.0, 2.0))
    assert priced[0] < 0.8 * free[0]
    assert priced[1] > 0.5


def test_the_network_gives_the_scores_that_were_learned():
    import keras

    from edgeveil.models import encoders

    keras.utils.set_random_seed(seeds.seed(0))
    trunk = encoders.vector_trunk(3, width=8, features=8)
    cells, kept, label = keras.layers.Dense(16), keras.layers.Dense(2), encoders.label_head(8, 2)
    cells(trunk.output), kept(trunk.output)
    scores = learned(tangled(1500, seed=0))
    network = encoders.residual_encoder(trunk, label, cells, kept, slope=scores.slope, offset=scores.offset)
    x = np.random.default_rng(0).random((50, 3), np.float32)
    h = trunk.predict(x, verbose=0)
    logits, t = h @ cells.kernel.numpy() + cells.bias.numpy(), h @ kept.kernel.numpy() + kept.bias.numpy()
    posterior = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    out = dict(zip(network.output_names, network.predict(x, verbose=0), strict=True))
    assert np.allclose(out["code_logits"], scores(t, posterior), rtol=1e-3, atol=1e-3)
    assert np.allclose(out["label_logits"], label.predict(h, verbose=0), atol=1e-5)


def test_a_class_with_fewer_rows_than_codes_still_has_scores():
    kept, _, y, z, _ = tangled(40, seed=4)
    y = np.where(np.arange(40) < 2, 1, 0)
    normal = training.usual(kept, y, z, shrinkage=4.0)
    p = np.ones((40, len(normal.mean))) / len(normal.mean)
    scores = training.learn(
        kept, p, y, z, normal, codes=4, classes=2, price=1.0, shrinkage=4.0, rng=np.random.default_rng(0)
    )
    assert np.isfinite(scores(kept, p)).all()
