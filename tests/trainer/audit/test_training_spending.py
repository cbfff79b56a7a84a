"""What a private training spends, by running its mechanisms: sound ones hold, and less noise than claimed is proved."""

import functools

import pytest

from edgeveil.trainer.audit.sections import training as training_spending
from edgeveil.trainer.audit.text import measured_spending
from edgeveil.trainer.cli import main
from edgeveil.trainer.ext.private import noise as dpsgd
from edgeveil.trainer.ext.private import noise as means
from edgeveil.trainer.ext.private.per_example import claim
from tests.support import audit_documents


@functools.cache
def claimed():
    """What a run records; the accountant takes a second, which collecting tests must not take."""
    return {
        "unit": "row",
        "units": 600,
        "encoder": {**claim(rate=0.2, sigma=1.0, steps=20, delta=1e-4).as_dict(), "clip": 0.5, "lot": 120},
        "pictures": claim(rate=1.0, sigma=2.0, steps=1, delta=1e-4).as_dict(),
    }


@pytest.fixture(autouse=True)
def _fewer_runs(monkeypatch):
    monkeypatch.setattr(training_spending, "STEPS", 20_000)
    monkeypatch.setattr(training_spending, "MEANS", 4000)


def test_what_is_claimed_is_not_exceeded_and_the_step_is_close_to_it(monkeypatch):
    monkeypatch.setattr(training_spending, "STEPS", 100_000)
    step, pictures = training_spending.measured(claimed())
    assert (step.more["claimed"], pictures.more["claimed"]) == (1.0, 0.5)
    assert step.more["holds"]
    assert pictures.more["holds"]
    assert step.value > 0.9
    assert (step.figure, step.rows) == ("mu", 50_000)
    document = {"findings": [step.as_json(), pictures.as_json()]}
    assert all("not above the claim" in line for line in measured_spending(document))
    assert measured_spending(document, broken=True) == []


def test_half_the_noise_in_a_step_is_proved(monkeypatch):
    noisy = dpsgd.noisy_mean
    monkeypatch.setattr(training_spending, "noisy_mean", lambda sums, made, noise: noisy(sums, made, Half(noise)))
    step, pictures = training_spending.measured(claimed())
    assert not step.more["holds"]
    assert pictures.more["holds"]
    (line,) = measured_spending({"findings": [step.as_json(), pictures.as_json()]}, broken=True)
    assert "the claim does not hold" in line


def test_a_gradient_that_is_not_clipped_is_proved(monkeypatch):
    sums = training_spending.Clipped.sums
    monkeypatch.setattr(
        training_spending.Clipped, "sums", lambda self, x, y, loss, clip, mask: sums(self, x, y, loss, 2 * clip, mask)
    )
    assert [row.more["holds"] for row in training_spending.measured(claimed())] == [False, True]


def test_a_fourth_of_the_noise_in_the_pictures_is_proved(monkeypatch):
    noisy = means.noisy_means

    def less(*about, sigma, noise):
        return noisy(*about, sigma=sigma / 4, noise=noise)

    monkeypatch.setattr(training_spending, "noisy_means", less)
    assert [row.more["holds"] for row in training_spending.measured(claimed())] == [True, False]


def test_a_mechanism_that_the_run_does_not_name_is_not_run():
    (row,) = training_spending.measured({key: claimed()[key] for key in ("units", "pictures")})
    assert row.name == "the pictures"


@pytest.mark.nightly  # by day of one network, above
def test_both_networks_of_a_codebook_are_run():
    facts = {
        "units": 600,
        "trunk": claimed()["encoder"],
        "codes": claimed()["encoder"],
        "pictures": claimed()["pictures"],
    }
    trunk, codes, pictures = training_spending.measured(facts)
    assert "trunk" in trunk.name
    assert "codes" in codes.name
    assert trunk.more["holds"]
    assert codes.more["holds"]
    assert pictures.more["holds"]


def test_a_claim_that_is_proved_wrong_ends_the_command_with_3(tmp_path, monkeypatch, capsys):
    promise = {"epsilon": 1.0, "given": True, "sentence": "Promised."}
    found = [
        training_spending.promised("training", promise, "[private]"),
        training_spending.judged("training", "a step", "mu", 1.0, 1.5, 10),
    ]
    document = audit_documents.document()
    document["findings"] += [one.as_json() for one in found]
    monkeypatch.setattr("edgeveil.trainer.audit.audit.audit", lambda *_, **asked: document if asked["spending"] else {})
    monkeypatch.setattr("sys.argv", ["edgeveil", "audit", str(tmp_path), "--spending"])
    with pytest.raises(SystemExit) as ended:
        main.main()
    assert ended.value.code == 3
    assert "error: Of a step, mu is 1 as claimed and at least 1.5" in capsys.readouterr().err
    assert (tmp_path / "audit.json").is_file()


class Half:
    """Half of what another noise draws."""

    def __init__(self, noise):
        self._noise = noise

    def gaussian(self, shape, sigma):
        return self._noise.gaussian(shape, sigma / 2)
