"""The committed pages on MNIST and on codebooks are what the scripts make of the committed records."""

import json

from scripts.reproduce.pages import write_codebook_docs, write_result_docs
from tests.support.checkout import ROOT


def test_the_page_on_mnist_is_what_its_record_says():
    record = json.loads((ROOT / write_result_docs.RECORD).read_text())
    assert (ROOT / write_result_docs.PAGE).read_text() == write_result_docs.page(record), (
        "run python -m scripts.reproduce.pages.write_result_docs"
    )


def test_the_page_on_codebooks_is_what_their_records_say():
    assert (ROOT / write_codebook_docs.PAGE).read_text() == write_codebook_docs.page(ROOT), (
        "run python -m scripts.reproduce.pages.write_codebook_docs"
    )
