"""codebooks/limits.py: what no code can reach, on data where that is known."""

import numpy as np
import pytest

from edgeveil.trainer.datasets.base import Dataset, InputSpec, Slices
from scripts.reproduce.codebooks import limits
from scripts.reproduce.pages import codebooks_page


def digits(n: int, spread: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Two values for a y: two digits whose middles are 2 apart, each with a spread of its own along one axis."""
    rng = np.random.default_rng(0)
    digit = rng.integers(0, 2, n)
    u = rng.normal(size=(n, 2)) * np.array([1.0, 0.0])
    u[digit == 1] = u[digit == 1] * spread + np.array([0.0, 2.0])
    return u, np.zeros(n, np.int64), digit


@pytest.mark.parametrize("spread", [1.0, 3.0])
def test_any_code_keeps_at_most_the_mean_spread_of_the_digits(spread):
    u, y, digit = digits(20_000, spread)
    # Along one axis the bound is met by the quantile: the variance of (1 + spread) / 2 times a normal number.
    total = (1 + spread**2) / 2 + 1
    assert limits._gelbrich(u, y, digit) == pytest.approx(((1 + spread) / 2) ** 2 / total, rel=0.03)
    assert limits._within(u, y, digit) == pytest.approx((1 + spread**2) / 2 / total, rel=0.03)


def test_more_codes_of_each_digit_keep_more_up_to_what_is_within_it(monkeypatch):
    monkeypatch.setattr(limits, "HELD", 4000)
    monkeypatch.setattr(limits, "COMPONENTS", 2)
    u, y, digit = digits(20_000, 1.0)
    two, many = (limits._best_codes(u, y, digit, codes, np.random.default_rng(0)) for codes in (2, 64))
    # Two codes of a normal number keep 2 / pi of it (Max 1960).
    assert two["held"] == pytest.approx(2 / np.pi / 2, abs=0.02)
    assert two["held"] < many["held"] == pytest.approx(limits._within(u, y, digit), abs=0.02)


def test_the_page_shows_what_settings_give():
    means = {8: (0.0092, 0.528, 0.859), 11: (0.0104, 0.562, 0.847)}
    names = "priced_bits_over_null", "auc_of_16", "kept.ink"
    settings = [
        {"settings": {"perturber.price": price}, "folds": {"0": {}, "1": {}}, "mean": dict(zip(names, of, strict=True))}
        for price, of in means.items()
    ]
    page = codebooks_page.compared({"made_by": "choose.py", "settings": settings[::-1]}, "price", "So it is")
    assert page.index("| 8 | 9.2 | 0.528 | 0.859 |") < page.index("| 11 | 10.4 | 0.562 | 0.847 |")
    assert page.startswith("So it is.\nOn validation rows, the means of 2 folds")


def test_the_page_says_what_is_needed():
    rows = [{"rows": 35_000, "least": 1.38, "median": 1.41, "most": 1.46}]
    blind = {"codes": 64, "draws": 20, "tried": 18, "rows": rows}
    pixels = {"any_code": 0.61, "codes": [{"codes": 32, "held": 0.33, "fitted": 0.34}]}
    balanced = {"codes": 64, "draws": 20, "releases": 16, "rows": [{"rows": 9, "least": 0.5, "mean": 0.6, "most": 0.7}]}
    record = {"made_by": "limits.py", "pixels": pixels, "blind": blind, "balanced": balanced}
    assert "F = 1.3 needs more rows than were tried." in codebooks_page.limits(record)
    rows.append({"rows": 70_000, "least": 1.26, "median": 1.29, "most": 1.31})
    page = codebooks_page.limits(record)
    assert "1.38 to 1.46\nin 20 draws on the 35,000 rows" in page
    assert "F = 1.3 needs about 70,000." in page
    assert "| 32 | 0.33 |" in page
    assert "| 9 | 0.600 | 0.500 | 0.700 |" in page


def test_a_code_balanced_on_few_rows_tells_more_of_others(monkeypatch):
    monkeypatch.setattr(limits, "DRAWS", 6)
    rng = np.random.default_rng(1)
    n = 12_000
    y, z = rng.integers(0, 2, n), rng.integers(0, 2, n)
    slices = Slices(*np.split(np.arange(n), 4)[:3], np.arange(9000, n))
    spec = InputSpec("vector", (1,), "uint8", 0.0, 255.0)
    x = np.zeros((n, 1), np.uint8)
    found = limits.balanced(Dataset("made", x, y, z, ("a", "b"), ("c", "d"), np.full((2, 2), 0.5), spec, slices), rng)
    assert [one["rows"] for one in found] == [3000, 6000, 12_000]
    # z is the priced label here: 31 degrees of freedom a class tell 62 / (2 n ln 2) bits of it.
    assert found[0]["mean"] > found[2]["mean"] + 0.03
    assert all(one["least"] < one["mean"] < one["most"] for one in found)
