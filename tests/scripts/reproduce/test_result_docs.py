"""The committed pages on MNIST and on codebooks are what the scripts make of the committed records."""

import json

from scripts.reproduce.pages import codebooks_page, write_pages
from tests.support.checkout import ROOT

HOW = "run python -m scripts.reproduce.pages.write_pages"


def test_the_page_on_mnist_is_what_its_record_says():
    record = json.loads((ROOT / write_pages.RECORD).read_text())
    assert (ROOT / write_pages.PAGE).read_text() == write_pages.page(record), HOW


def test_the_page_on_codebooks_is_what_their_records_say():
    assert (ROOT / codebooks_page.PAGE).read_text() == codebooks_page.page(ROOT), HOW
