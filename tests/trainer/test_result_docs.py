"""The committed pages on MNIST and on releases are what the scripts make of the committed records."""

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts"))
import make_release_docs
import make_result_docs

ROOT = Path(__file__).parents[2]


def test_the_page_on_mnist_is_what_its_record_says():
    record = json.loads((ROOT / make_result_docs.RECORD).read_text())
    assert (ROOT / make_result_docs.PAGE).read_text() == make_result_docs.page(record), "run make_result_docs.py"


def test_the_page_on_releases_is_what_their_records_say():
    assert (ROOT / make_release_docs.PAGE).read_text() == make_release_docs.page(ROOT), "run make_release_docs.py"
