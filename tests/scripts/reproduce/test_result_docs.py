"""The committed pages on MNIST and on releases are what the scripts make of the committed records."""

import json

from scripts.reproduce.pages import write_release_docs, write_result_docs
from tests.support.checkout import ROOT


def test_the_page_on_mnist_is_what_its_record_says():
    record = json.loads((ROOT / write_result_docs.RECORD).read_text())
    assert (ROOT / write_result_docs.PAGE).read_text() == write_result_docs.page(record), "run make_result_docs.py"


def test_the_page_on_releases_is_what_their_records_say():
    assert (ROOT / write_release_docs.PAGE).read_text() == write_release_docs.page(ROOT), "run make_release_docs.py"
