"""The bound for every code in a certificate: checked by hand, rare codes left out by count alone, and said."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from scipy.linalg import block_diag

from edgeveil.trainer.audit.findings import Finding
from edgeveil.trainer.audit.sections import certificate_section
from edgeveil.trainer.audit.sections.certificate_section import EVERY, OF_CLASS
from edgeveil.trainer.audit.text import as_text
from edgeveil.trainer.measures.certificate import FIRST
from edgeveil.trainer.perturbers.codebook import stream_codes
from edgeveil.trainer.report.card_page import tables
from tests.support.audit_documents import document

ERROR = 0.05 * FIRST / 5  # of each kind of end, where nothing was audited on these rows before


def rows(counts: list[list[list[int]]]) -> list[np.ndarray]:
    """y, code, z of rows with these counts (y, code, z)."""
    table = np.array(counts)
    return [np.repeat(index, table.ravel()) for index in np.indices(table.shape).reshape(3, -1)]


def found_of(counts: list[list[list[int]]], **changes: object) -> dict[str, Finding]:
    asked = {"cluster": None, "confidence": 0.95, "tried": 1, "unit": "subjects", "slices": "test"}
    asked |= {"seed": 0, "releases": (1, 4, 16)}
    found = certificate_section.per_code_section(*rows(counts), shape=np.array(counts).shape, **{**asked, **changes})
    return {one.name: one for one in found}


def bound(counts: list[list[list[int]]], **changes: object) -> dict:
    """The bound for every code: its figure, its sentence and what else was counted."""
    one = found_of(counts, **changes)[EVERY]
    assert one.question == "channel"
    return {"factor": one.value, **one.more, "given": one.bound, "sentence": one.text or one.not_run, "units": one.rows}


def test_the_factor_is_that_of_clopper_and_pearson_by_hand():
    """Two codes, 500 rows of each z: a fifth of the error shared by four cells above and two of P(z) below."""
    found = bound([[[500, 500], [500, 500]]])
    upper, lower = stats.beta.ppf(1 - ERROR / 4, 501, 500), stats.beta.ppf(ERROR / 2, 1000, 1001)
    assert found["factor"] == pytest.approx(upper / lower, abs=1e-6)
    assert found["estimate"] == found["capacity"] == 1
    assert found["leakage_bits"] == pytest.approx(np.log2(upper / lower), abs=1e-6)
    assert found["pairs"] == {"bounded": 2, "rare": 0, "unseen": 0}
    assert (found["given"], found["needed"], found["share"], found["units"]) == (True, None, 1, 2000)
    assert found["sentence"] == (
        "No code raises the chance of any value of z, given y, by more than a factor F = 1.16, with 95 % confidence, "
        "for subjects drawn like those counted (2,000 subjects of test, which no training saw)."
    )


def test_tried_configurations_share_the_confidence():
    one, eight = bound([[[500, 500], [500, 500]]]), bound([[[500, 500], [500, 500]]], tried=8)
    assert eight["factor"] > one["factor"]
    assert "which no training saw, 8 configurations tried, if fixed beforehand)" in eight["sentence"]


def test_linked_codes_have_their_factor():
    found = found_of([[[500, 500], [500, 500]]])
    four, sixteen = (found[f"{t} linked, at most if independent"] for t in (4, 16))
    # Odds of z rise by F over the least that a code leaves to the other z, to the power of T.
    upper, lower = stats.beta.ppf(1 - ERROR / 4, 501, 500), stats.beta.ppf(ERROR / 2, 1000, 1001)
    ratio = ((1 - upper) / (1 - lower)) / (upper / lower)
    assert four.value == pytest.approx(1 / (lower + (1 - lower) * ratio**4), abs=1e-4)
    assert found[EVERY].value < four.value < sixteen.value <= 1 / lower
    assert not four.bound  # codes of one person are seldom independent


def test_rare_codes_are_left_out_and_said_with_the_number_needed():
    found = bound([[[500, 500], [500, 500], [10, 0], [0, 0]]])
    assert found["pairs"] == {"bounded": 2, "rare": 1, "unseen": 1}
    assert found["worst"]["code"] in (0, 1)
    assert found["over_all_seen"] > 1.9
    assert found["needed"] == 6100  # 30 in place of 10 of 2,010: 6,030
    assert "fewer than 30 subjects, 0.5 % of the samples" in found["sentence"]
    assert "about 6,100 subjects would be needed" in found["sentence"]


def test_a_code_that_tells_all_is_never_left_out_for_that():
    found = bound([[[500, 500], [500, 500], [30, 0]]])
    assert found["worst"] == {"y": 0, "code": 2, "units": 30}
    assert found["factor"] > 1.9
    assert "so this bounds nothing" in found["sentence"]


@pytest.mark.parametrize("counts", [[[40, 40], *[[5, 5]] * 10], [[5, 5]] * 10])
def test_where_most_codes_are_rare_there_is_no_bound(counts):
    found = bound([counts])
    assert not found["given"]
    assert found["sentence"].startswith("No bound for every code: the ")
    assert "The rarest code has 10 of them" in found["sentence"]
    assert "certainty about z is a factor of" in found["sentence"]


def test_ten_rows_of_a_unit_count_once():
    counts = [[[50, 50], [50, 50]]]
    many = [[[500, 500], [500, 500]]]
    cluster = np.repeat(np.arange(200), 10)
    assert bound(many, cluster=cluster)["units"] == bound(counts)["units"] == 200
    assert bound(many, cluster=cluster)["factor"] >= bound(counts)["factor"] > bound(many)["factor"]


def test_given_the_class_that_is_sent_every_code_is_bounded_once_rare_ones_are_merged():
    """Three codes a class; one class has a rare one, and a wrong y-hat is rare with every code."""
    wrong = [[3, 1]] * 3
    counts = np.array([[[500, 500], [500, 500], [500, 500], *wrong], [*wrong, [500, 500], [500, 500], [12, 8]]])
    found = found_of(counts.tolist(), sendable=np.ones(6, bool))
    assert found[EVERY].more["pairs"]["rare"] == 7
    assert not found[OF_CLASS].bound
    assert [found[OF_CLASS].more[name] for name in ("codes", "unseen", "fewest")] == [6, 0, 24]
    assert "the rarest of 6 was counted for 24 subjects. Fewer `perturber.codes` give" in found[OF_CLASS].not_run
    blocks = [np.eye(3), np.eye(3)[[0, 1, 0]]]
    shipped = stream_codes.integers(block_diag(*blocks))
    after = np.einsum("ck,ycz->ykz", shipped // 2**stream_codes.TOTAL_BITS, counts)
    merged = found_of(after.tolist(), sendable=shipped.any(axis=0))
    assert merged[EVERY].more["pairs"]["rare"] == 5  # with y, the wrong y-hat stay rare
    of_class_too = merged[OF_CLASS]
    assert of_class_too.bound
    assert (of_class_too.more["codes"], of_class_too.more["unseen"]) == (5, 0)
    of_code = after.sum(axis=0)
    of_class = np.repeat([of_code[:3].sum(axis=0), of_code[3:].sum(axis=0)], 3, axis=0)
    n, total = of_code.sum(axis=1, keepdims=True), of_class.sum(axis=1, keepdims=True)
    upper = stats.beta.ppf(1 - ERROR / after.size, of_code + 1, n - of_code)
    by_hand = upper / stats.beta.ppf(ERROR / 4, of_class, total - of_class + 1)
    assert of_class_too.value == pytest.approx(by_hand[n[:, 0] > 0].max(), abs=1e-4)
    assert "F = 1.19 for every one of the 5 codes" in of_class_too.text


def test_a_code_that_never_came_has_no_bound_given_the_class_either():
    counts = [[[500, 500], [0, 0], [0, 0], [0, 0]], [[0, 0], [0, 0], [500, 500], [500, 500]]]
    found = found_of(counts, sendable=np.ones(4, bool))[OF_CLASS]
    assert found.more["unseen"] == 1
    assert not found.bound


def test_a_z_that_never_comes_with_a_y_raises_no_factor():
    found = found_of([[[500, 500, 0], [500, 500, 0]], [[300, 0, 300], [300, 0, 300]]])
    assert found[EVERY].value < 1.3
    assert [one.value is not None for name, one in found.items() if "linked" in name] == [True, True]


def test_a_handful_of_units_has_no_factor_and_is_no_crash():
    cluster = np.arange(400) // 25
    found = found_of([[[100, 100], [100, 100]]], cluster=cluster)[EVERY]
    assert not found.bound
    assert found.more["needed"] > 16
    made = document()
    made["findings"].append(found.as_json())
    assert found.not_run in as_text(made)
    assert any(found.not_run in row.note for one in tables([found]) for row in one.rows)


def test_where_a_z_may_never_come_with_its_y_the_sentence_says_so_in_words(monkeypatch):
    """With subjects of many rows, a draw of one row each may hold no row of a rare z."""
    exact = certificate_section.per_code
    monkeypatch.setattr(
        certificate_section, "per_code", lambda *rows, **asked: replace(exact(*rows, **asked), factor=np.inf)
    )
    found = bound([[[5, 5], [5, 5]]])
    assert "so some z may never come with its y, and then no factor bounds its chance. About" in found["sentence"]
    assert "infinity" not in found["sentence"]
