"""The page on what is in use today is what its record says, and the record shows that the attack has power."""

import json

from scripts.reproduce.pages import peers_page
from tests.support.checkout import ROOT

RECORD = json.loads((ROOT / peers_page.RECORD).read_text())


def test_the_committed_page_is_what_the_record_says():
    assert (ROOT / peers_page.PAGE).read_text() == peers_page.page(RECORD)


def test_some_mechanism_is_read_well_and_every_one_is_named():
    sentences = list(peers_page.sentences(RECORD))
    for name, about in RECORD["sets"].items():
        assert any(peers_page.way(row) > peers_page.WELL for row in about["rows"]), name
        named = " ".join(sentence for sentence in sentences if sentence.startswith(name))
        assert all(f"{row['peer']}, {row['strength']}" in named for row in about["rows"])


def test_the_weakest_blur_leaves_what_there_was():
    for about in RECORD["sets"].values():
        row = about["rows"][0]
        assert row["worst_adaptive"]["high"] >= row["raw"]["sensitive"]["low"]
