"""Channels designed for a bound: against laws that are known, fresh rows that an audit counts, and a small training."""

import numpy as np
import pytest

from edgeveil.edge_runtime.errors import BadInput, LimitNotMet
from edgeveil.trainer.audit.subject import Bottleneck, bottleneck
from edgeveil.trainer.measures.pufferfish import counted
from edgeveil.trainer.perturbers.codebook import channel
from edgeveil.trainer.perturbers.local import Local
from edgeveil.trainer.recipe.schema import Recipe
from edgeveil.trainer.runs.run import Run
from tests.support import seeds
from tests.support.small_runs import fit_codebook, small_recipe, write_npz

Y, Z, K = 2, 4, 12  # classes of y and z, codes of each class
ROWS = 1400  # of each y and z
FRESH = 2.5  # times as many
LABEL = np.arange(Y * K) // K  # that each code states
ACCURACY = np.array([[0.98, 0.97, 0.97, 0.96], [0.97, 0.98, 0.96, 0.97]])


def population(spread: float) -> tuple[np.ndarray, np.ndarray]:
    """Places of the codes (Y, K, 3) and P(code | y, z) (Y, Z, K), which a larger ``spread`` makes leak more."""
    rng = np.random.default_rng(3)
    places, logits = rng.normal(size=(Y, K, 3)), rng.normal(size=(Y, 1, K)) / 3
    laws = np.exp(logits + spread * np.einsum("yzd,ykd->yzk", rng.normal(size=(Y, Z, 3)), places))
    return places, laws / laws.sum(axis=2, keepdims=True)


def drawn(laws: np.ndarray, each: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """y, z and code of rows, some of which are classified wrong."""
    y, z = np.repeat(np.arange(Y * Z), each) // Z, np.repeat(np.arange(Y * Z), each) % Z
    predicted = np.where(rng.random(len(y)) < ACCURACY[y, z], y, 1 - y)
    within = (rng.random((len(y), 1)) > laws[predicted, z].cumsum(axis=1)).sum(axis=1).clip(max=K - 1)
    return y, z, predicted * K + within


def designed(spread: float, epsilon: float, seed: int = 0, each: int = ROWS) -> channel.Design:
    """The channel by rows of such a population."""
    places, laws = population(spread)
    rng = np.random.default_rng(seed)
    y, z, code = drawn(laws, each, rng)
    kept = places.reshape(-1, 3)[code] + rng.normal(size=(len(y), 3)) / 3
    settings = {"per_class": K, "epsilon": epsilon, "error": 0.05, "fresh": FRESH}
    return channel.design(kept, y, code, z, np.arange(len(y)), **settings)


def loss(spread: float, q: np.ndarray) -> float:
    """The largest log ratio of P(code | y, z) over z, of the codes of y's own class: the truth."""
    losses = []
    for y, laws in enumerate(population(spread)[1]):
        own = slice(y * K, (y + 1) * K)
        sent = (ACCURACY[y][:, None] * laws) @ q[own, own]
        sent = sent[:, sent.sum(axis=0) > 0]
        losses.append(np.log(sent.max(axis=0) / sent.min(axis=0)).max())
    return float(max(losses))


@pytest.mark.parametrize("epsilon", [0.7, 1.5])
def test_the_bound_holds_of_the_true_laws_and_is_counted_on_fresh_rows(epsilon):
    spread, theta = 0.4, np.full((Y, Z), 1 / Z)
    assert loss(spread, np.eye(Y * K)) > 1.5
    for seed in range(4):
        q = designed(spread, epsilon, seed).q
        assert loss(spread, q) < epsilon
        rng = np.random.default_rng([seed, 1])
        y, z, code = drawn(population(spread)[1], int(FRESH * ROWS), rng)
        sent = counted(y, channel.send(code, q, rng), z, shape=(Y, Y * K, Z), theta=theta, label=LABEL, rng=rng).codes
        assert sent.epsilon <= epsilon
        assert sent.delta < 0.09  # y-hat is wrong for .04
        as_they_are = counted(y, code, z, shape=(Y, Y * K, Z), theta=theta, label=LABEL, rng=rng).codes
        assert as_they_are.epsilon > 1.5


def test_a_channel_never_leaves_the_class():
    q = designed(0.3, 1.0).q
    assert q.sum(axis=1) == pytest.approx(1)
    assert q.min() >= 0
    assert q[:K, K:].sum() == q[K:, :K].sum() == 0


def test_a_smaller_epsilon_costs_more_and_codes_without_a_leak_cost_little():
    tight, loose = designed(0.3, 0.7), designed(0.3, 2.0)
    assert tight.distortion > 1.3 * loose.distortion
    assert sum(tight.codes) < sum(loose.codes)
    assert designed(0.0, 2.0, each=40_000).distortion < 0.02 < loose.distortion


def test_two_codes_have_the_distortion_that_is_worked_out_by_hand():
    """Each is flipped with the a at which (.7 (1 - a) + .3 a) / (.3 (1 - a) + .7 a) is e^epsilon."""
    laws, epsilon = np.array([[0.7, 0.3], [0.3, 0.7]]), 0.3
    a = (0.7 - 0.3 * np.exp(epsilon)) / (0.4 + 0.4 * np.exp(epsilon))
    q, distortion = channel.block(
        laws, np.array([0.5, 0.5]), np.array([[-1.0], [1.0]]), epsilon=epsilon, s=np.full(2, 1e-9)
    )
    assert q == pytest.approx(np.array([[1 - a, a], [a, 1 - a]]), abs=1e-6)
    assert distortion == pytest.approx(1 - (1 - 2 * a) ** 2, abs=1e-6)  # centres move inwards by 1 - 2 a


def test_what_cannot_be_reached_is_refused_with_what_can():
    laws, s = np.array([[0.5, 0.45], [0.5, 0.40]]), np.array([0.02, 0.03])
    weight, centres = np.array([0.5, 0.5]), np.array([[-1.0], [1.0]])
    least = channel.reachable(laws, s)
    assert least == pytest.approx(np.log((0.95 + 0.02 * 0.95**0.5) / (0.9 - 0.03 * 0.9**0.5)))
    with pytest.raises(LimitNotMet, match=r"No channel has a `perturber.pufferfish` of 0\.1 .*: 0\.11 is the least"):
        channel.block(laws, weight, centres, epsilon=0.1, s=s)
    q, _ = channel.block(laws, weight, centres, epsilon=least + 1e-6, s=s)
    assert np.count_nonzero(q.sum(axis=0)) == 1
    with pytest.raises(LimitNotMet, match="on so few rows: add rows"):
        channel.block(laws, weight, centres, epsilon=5.0, s=np.array([1.0, 1.0]))


def test_codes_are_drawn_from_their_rows():
    q = np.array([[0.2, 0.8, 0.0], [0.0, 1.0, 0.0], [0.5, 0.0, 0.5]])
    code = np.repeat([0, 1, 2], 20_000)
    sent = channel.send(code, q, np.random.default_rng(0))
    law = np.stack([np.bincount(sent[code == one], minlength=3) / 20_000 for one in range(3)])
    assert law == pytest.approx(q, abs=0.02)


CODEBOOK = {"kind": "codebook", "keep": ["pixels"], "codes": 4, "price": 0.0, "evenness": 0.2, "steps": 200}


def run_of(folder, rows: int, **changes) -> Run:
    path = write_npz(folder, rows=rows)
    recipe = small_recipe(path, perturber={**CODEBOOK, **changes})
    return Run.create(folder / f"run-{len(changes)}", recipe)


def test_a_trained_codebook_keeps_its_bound_on_rows_that_it_never_saw(tmp_path):
    """Half of T is z: without a channel codes give it away."""
    losses = {}
    for name, changes in {"price": {}, "channel": {"pufferfish": 1.0}}.items():
        run = run_of(tmp_path, 16_000, **changes)
        perturber, dataset = fit_codebook(run), run.dataset()
        unseen = dataset.rows(np.concatenate([dataset.slices.attack, dataset.slices.test]))
        code = perturber.perturb(unseen.x)["code"]
        rng = np.random.default_rng(seeds.seed(0))
        found = counted(
            unseen.y, code, unseen.z, shape=(2, 8, 2), theta=dataset.theta, label=np.arange(8) // 4, rng=rng
        ).codes
        losses[name] = found.epsilon
        manifest = perturber.description()
        assert [stage for stage in manifest["stages"] if stage.get("table") == "channel"] != [] or not changes
        found = bottleneck(manifest, dict(perturber.tables))
        assert isinstance(found, Bottleneck)
        assert found.table == ("channel" if changes else None)
    assert losses["channel"] <= 1.0 < losses["price"]


def test_too_few_rows_are_refused_before_any_training(tmp_path):
    run = run_of(tmp_path, 800, pufferfish=1.0)
    with pytest.raises(BadInput, match=r"has \d+ of them, and 4 codes need 120, 30 each\. Set fewer `perturber.codes`"):
        run.recipe.perturber.check(run.dataset().for_training())


@pytest.mark.parametrize(
    ("lines", "why"),
    [('pufferfish = 1.0\nhold = "track:7"\n', "no `pufferfish` with `hold`"), ("pufferfish = 0.0\n", "greater than 0")],
)
def test_where_no_channel_is_designed(lines, why, tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(Recipe.text("digits-codebook").replace("[perturber]\n", f"[perturber]\n{lines}"))
    with pytest.raises(BadInput, match=why):
        Recipe.find(path)


def test_nothing_that_is_counted_without_noise_is_private_or_reported():
    section = Recipe.find("digits-codebook").perturber.model_copy(update={"synthesis": "centroid", "pufferfish": 1.0})
    with pytest.raises(ValueError, match=r"no `perturber\.pufferfish` with"):
        section.check_private()
    table = {"kind": "local", "of": "code", "mechanism": "auto", "epsilon": 1.0}
    with pytest.raises(ValueError, match="no `pufferfish` in"):
        Local.model_validate({**table, "codebook": {**CODEBOOK, "pufferfish": 1.0}})
