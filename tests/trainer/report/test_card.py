"""The card of a publication says all that its statement has, and escapes it."""

import pytest

from edgeveil.trainer.report.card_markdown import render, text
from tests.support.publishing import publication_documents

SAID = (
    *("12,345 rows in", "About 15 people were left out", "generalised (dates)", "0.250", "0.412", "illness.distinct_l"),
    *("99.3 %", "98.7 %", "37", "±3.38", "60 to below 70: 160", "254.8", "3-differentially private for each person"),
    *("61.0 % [55.0, 66.0]", "+0.021", "585 people, each by all rows", "15 points above y alone and 0.3 bits", "cnn"),
    *("40 of 1,017 frames are records of other people (9 of them)", "2 of 1,017 frames left unchanged"),
    *("frames and columns", "columns alone", "columns: cnn gains 1", "left out: 1.", "Pseudonyms are deterministic."),
    *("The epsilon is of the statistics alone", "1" * 64),
)
OF_FRAMES = (
    *("3" * 64, "4" * 64, "5" * 64, "tflite-int8", "17 rows were dropped", "covered by the audit of their bundle"),
    "12,345 rows in 1 file",
)


@pytest.mark.parametrize("of", [render, text])
def test_everything_is_said(of):
    table, archive = of(publication_documents.table()), of(publication_documents.archive())
    assert [words for words in SAID if words not in table] == []
    assert [words for words in (*SAID, *OF_FRAMES) if words not in archive] == []
    assert [words for words in OF_FRAMES[:-1] if words in table] == []


def test_what_was_not_asked_for_is_not_there():
    bare = {**publication_documents.table(), "attack": None, "statistics": None}
    for page in (render(bare), text(bare)):
        assert "best attack found" not in page.lower()
        assert "epsilon" not in page.lower()
    assert "asks for no attack" in render(bare)
    assert "asks for no attack" in text(bare)
    unaudited = publication_documents.archive()
    unaudited["bundle"] |= {"audited": False, "card_sha256": None, "verdict": None}
    assert "none: this bundle was not audited" in render(unaudited)


def test_values_are_escaped():
    page = render(publication_documents.table())
    assert "&lt;university&gt;" in page
    assert "<university>" not in page
    assert r"day, age\|sex" in text(publication_documents.table())


def test_a_word_for_each_verdict():
    document = publication_documents.table()
    for word, tone in (("leaks", "bad"), ("holds", "good"), ("cannot tell", "some")):
        document["attack"] = {**document["attack"], "verdict": word}
        assert f'<div class="verdict {tone}">' in render(document)
        assert f"## {word.capitalize()}" in text(document)
