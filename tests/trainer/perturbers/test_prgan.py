"""PR-GAN's terms one by one (paper 001, eqs. 7 to 11), and the rule that chooses a checkpoint."""

import numpy as np
import pytest
import tensorflow as tf

from edgeveil.edge_runtime.errors import BadInput, LimitNotMet
from edgeveil.models.classifiers import table1_wifi
from edgeveil.trainer.datasets.base import InputSpec, Joint
from edgeveil.trainer.perturbers import prgan
from edgeveil.trainer.perturbers.prgan import Generator, PrGan
from edgeveil.trainer.recipe.schema import Recipe
from edgeveil.trainer.runs.checkpoint_score import CheckpointScore, log_masked, score_checkpoint
from edgeveil.trainer.runs.run import Run
from edgeveil.trainer.train import train

SPEC = InputSpec("vector", (4,), "float32", 0.0, 1.0)
SECTION = PrGan(
    kind="prgan", alpha=2.0, beta=3.0, distance=0.2, generator=Generator(architecture="mlp", width=8, blocks=1)
)
THETA = np.array([[0.5, 0.5, 0.0], [0.1, 0.3, 0.6]])


def networks():
    return prgan.build(SPEC, SECTION, table1_wifi(4, 2), table1_wifi(4, 3), seed=0)


def batch(n=64):
    rng = np.random.default_rng(0)
    return tf.constant(rng.random((n, 4), np.float32)), tf.constant(rng.integers(0, 2, n), tf.int32)


def weights(model):
    return [v.numpy() for v in model.variables]


def unchanged(before, model):
    return all(np.array_equal(a, b) for a, b in zip(before, weights(model), strict=True))


def test_cross_entropy_to_med_is_least_where_d_z_says_med():
    """Eq. (8): CE(D_z(x'|y), MED(z|y)) is the entropy of MED there, and more anywhere else."""
    p = tf.constant([[0.1, 0.3, 0.6]])
    entropy = -float(np.sum(p * np.log(p)))
    at_med = float(prgan.med_cross_entropy(tf.math.log(p) + 7.0, p)[0])
    assert at_med == pytest.approx(entropy, abs=1e-6)
    always_right = float(prgan.med_cross_entropy(tf.constant([[0.0, 0.0, 9.0]]), p)[0])
    always_wrong = float(prgan.med_cross_entropy(tf.constant([[0.0, 0.0, -9.0]]), p)[0])
    assert min(always_right, always_wrong) > entropy + 1


def test_d_z_is_masked_to_the_z_that_theta_allows():
    p, logits = tf.constant([[0.5, 0.5, 0.0]]), tf.Variable([[1.0, 1.0, 50.0]])
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(prgan.med_cross_entropy(logits, p))
    assert float(loss) == pytest.approx(np.log(2), abs=1e-6)
    gradient = np.array(tape.gradient(loss, logits))
    np.testing.assert_allclose(gradient, [[0, 0, 0]], atol=1e-6)


def test_hinge_costs_nothing_within_c_and_the_rest_beyond():
    """Eq. (10), Euclidean; it has a finite slope where the generator starts."""
    u = tf.zeros((2, 2, 2, 1))
    made = tf.Variable(tf.concat([tf.fill((1, 2, 2, 1), 0.1), tf.fill((1, 2, 2, 1), 1.0)], 0))
    assert float(prgan.hinge_loss(u, made, 0.5)) == pytest.approx((0 + 1.5) / 2)
    same = tf.Variable(u)
    with tf.GradientTape() as tape:
        loss = prgan.hinge_loss(u, same, 0.5)
    assert np.isfinite(np.array(tape.gradient(loss, same))).all()


def test_a_step_trains_g_and_d_and_nothing_else():
    nets = networks()
    before = {name: weights(getattr(nets, name)) for name in ("generator", "discriminator", "target", "sensitive")}
    losses = prgan.training_step(nets, THETA, SECTION)(*batch())
    changed = {name for name in before if not unchanged(before[name], getattr(nets, name))}
    assert changed == {"generator", "discriminator"}
    total = (
        losses["loss_gan"]
        + SECTION.alpha * (losses["loss_target"] + losses["loss_sensitive"])
        + SECTION.beta * losses["loss_hinge"]
    )
    assert float(losses["loss_generator"]) == pytest.approx(float(total), rel=1e-6)


def test_several_targets_cost_the_sum_of_each_ones_cross_entropy():
    """Eqs. (8) and (11): by the marginals of D_y's softmax over joint classes, three of them here."""
    joint = Joint(("a", "b"), (("x", "y"), ("s", "t")), np.array([[0, 0], [1, 0], [1, 1]]))
    p = np.array([[0.5, 0.3, 0.2], [0.1, 0.2, 0.7]])
    y, logits = tf.constant([0, 1]), tf.constant(np.log(p), tf.float32)
    a, b = np.log([0.5, 0.2 + 0.7]), np.log([0.5 + 0.3, 0.1 + 0.2])
    assert float(prgan.kept_loss(joint)(y, logits)) == pytest.approx(-(a + b).mean(), rel=1e-5)
    assert float(prgan.kept_loss(None)(y, logits)) == pytest.approx(-np.log([0.5, 0.2]).mean(), rel=1e-5)


def test_a_step_has_the_sum_of_several_targets():
    section, (u, y) = SECTION.model_copy(update={"learning_rate": 1e-9}), batch()
    nets = prgan.build(SPEC, section, table1_wifi(4, 2), table1_wifi(4, 3), seed=0)
    joint = Joint(("a", "b"), (("x", "y"), ("x", "y")), np.array([[0, 0], [1, 1]]))  # the same target twice
    one, two = (prgan.training_step(nets, THETA, section, given)(u, y) for given in (None, joint))
    assert float(two["loss_target"]) == pytest.approx(2 * float(one["loss_target"]), rel=1e-4)


def test_terms_can_be_left_out_for_the_papers_baselines():
    nets = networks()
    before = weights(nets.discriminator)
    ngp = prgan.training_step(nets, THETA, SECTION.model_copy(update={"kind": "ngp"}))(*batch())
    assert unchanged(before, nets.discriminator)
    assert set(ngp) == {"loss_sensitive", "loss_hinge", "loss_target", "loss_generator"}
    ap = prgan.training_step(networks(), THETA, SECTION.model_copy(update={"kind": "ap"}))(*batch())
    assert "loss_target" not in ap
    assert "loss_gan" in ap


def test_d_learns_to_tell_readings_from_perturbed_ones():
    """Eq. (7): one sign wrong, and D would call perturbed readings real."""
    section = SECTION.model_copy(update={"discriminator_learning_rate": 1e-2, "learning_rate": 1e-9})
    nets = prgan.build(SPEC, section, table1_wifi(4, 2), table1_wifi(4, 3), seed=0)
    nets.generator.get_layer("change").bias.assign([0.5, -0.5, 0.5, -0.5])
    step = prgan.training_step(nets, THETA, section)
    u, y = batch()
    for _ in range(200):
        step(u, y)
    real, made = (np.array(nets.discriminator(v)).mean() for v in (u, nets.generator(u)))
    assert real > made + 1


def test_g_is_drawn_towards_what_d_takes_for_real():
    """Eq. (9), non-saturating: with D alone in the loss, D's verdict on G(u) rises."""
    section = SECTION.model_copy(update={"alpha": 1e-9, "beta": 0.0, "discriminator_learning_rate": 1e-9})
    nets = prgan.build(SPEC, section, table1_wifi(4, 2), table1_wifi(4, 3), seed=0)
    step = prgan.training_step(nets, THETA, section)
    u, y = batch()
    before = np.array(nets.discriminator(nets.generator(u))).mean()
    for _ in range(100):
        step(u, y)
    assert np.array(nets.discriminator(nets.generator(u))).mean() > before + 0.1


def verdict(**changes):
    good = {
        "target_accuracy": 0.97,
        "sensitive_accuracy": 0.6,
        "med_cross_entropy": 0.7,
        "med_entropy": 0.67,
        "distance": 1.0,
    }
    return CheckpointScore(**{**good, **changes})


def test_the_choice_is_the_nearest_to_med_above_the_floor():
    rule = {"floor": 0.95, "most_distance": 1.5}
    chosen = verdict()
    wrong_all_the_time = verdict(sensitive_accuracy=0.02, med_cross_entropy=3.0)
    below_the_floor = verdict(target_accuracy=0.94, med_cross_entropy=0.68)
    wreck = verdict(distance=9.0, med_cross_entropy=0.68)
    others = [wrong_all_the_time, below_the_floor, wreck]
    assert min([*others, chosen], key=lambda j: j.rank(**rule)) is chosen
    assert min([below_the_floor, wreck], key=lambda j: j.rank(**rule)) is wreck
    worse = verdict(target_accuracy=0.9, med_cross_entropy=0.67)
    assert min([worse, below_the_floor], key=lambda j: j.rank(**rule)) is below_the_floor
    flat = verdict(sensitive_accuracy=0.7, sensitive_excess=0.08, med_cross_entropy=0.69)
    assert min([flat, chosen], key=lambda j: j.rank(**rule)) is chosen


def test_the_excess_is_what_d_z_has_above_a_guess_and_below_it():
    """Logits of D_z are the samples: right in 60 % of 400 rows, in all, or in none, where a guess has 60 %."""
    z = np.arange(400) % 5 // 3  # 0 in 60 %
    theta, y = np.array([[0.6, 0.4]]), np.zeros(400, np.int64)
    noise = 2 * np.sqrt(0.6 * 0.4 / 400)

    def excess(right):
        logits = np.eye(2, dtype=np.float32)[np.where(right, z, 1 - z)]
        same = tf.keras.layers.Activation("linear")
        return score_checkpoint(logits, logits, y, z, theta=theta, target=same, sensitive=same).sensitive_excess

    assert excess(z == 0) == 0
    assert excess(np.full(400, True)) == pytest.approx(0.4 - noise)
    assert excess(np.full(400, False)) == pytest.approx(0.6 - noise)


def test_judging_agrees_with_the_loss():
    rng = np.random.default_rng(0)
    u, y, z = rng.random((40, 4), np.float32), rng.integers(0, 2, 40), rng.integers(0, 2, 40)
    nets = networks()
    made = np.clip(u + 0.1, 0, 1)
    found = score_checkpoint(u, made, y, z, theta=THETA, target=nets.target, sensitive=nets.sensitive)
    loss = prgan.med_cross_entropy(nets.sensitive(made), tf.constant(THETA[y], tf.float32))
    assert found.med_cross_entropy == pytest.approx(float(np.mean(loss)), rel=1e-5)
    assert found.distance == pytest.approx(float(np.linalg.norm(made - u, axis=1).mean()), rel=1e-5)
    masked = log_masked(np.array([[1.0, 1.0, 50.0]]), THETA[:1])
    np.testing.assert_allclose(masked, [[np.log(0.5), np.log(0.5), -np.inf]])


@pytest.mark.parametrize(
    ("shape", "kind", "architecture", "halvings", "says"),
    [
        ((8, 8, 1), "image", "mlp", 1, 'generator is "mlp": vectors take "mlp", images and series "conv"'),
        ((6,), "vector", "conv", 1, 'generator is "conv"'),
        ((8, 6, 1), "image", "conv", 4, "take at most 2"),
    ],
)
def test_a_generator_that_does_not_fit_the_data_is_refused(shape, kind, architecture, halvings, says):
    spec = InputSpec(kind, shape, "uint8", 0.0, 255.0)
    section = Generator(architecture=architecture, width=8, halvings=halvings)
    with pytest.raises(BadInput, match=says):
        prgan.build_generator(spec, section)


def test_where_more_than_z_is_sensitive_the_generator_learns_against_the_joint_label(tmp_path, monkeypatch):
    recipe = Recipe.find("digits-prgan").with_budget("quick")
    data = recipe.data.model_copy(update={"family": "finest"})
    budget = recipe.budget.model_copy(update={"classifier_epochs": 2, "epochs": 1})
    recipe = recipe.model_copy(update={"data": data, "budget": budget})
    seen, build = [], prgan.build

    def watched(spec, section, target, sensitive, **others):
        seen.append((sensitive.output_shape[-1], target.output_shape[-1]))
        return build(spec, section, target, sensitive, **others)

    monkeypatch.setattr(prgan, "build", watched)
    try:
        run = train(recipe, tmp_path / "run")
    except LimitNotMet:
        run = Run.open(tmp_path / "run")
    assert seen == [(10, 2)]
    assert run.classifiers()["sensitive"].output_shape[-1] == 2
    assert [line["step"] for line in run.metrics("joint")] == [1, 2]
