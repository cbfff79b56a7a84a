"""docs/results/capture-loop.md says what its records say."""

from pathlib import Path

import pytest

from edge_runtime.errors import BadInput
from trainer.report import loop

ROOT = Path(__file__).parents[2]


def test_the_page_and_its_records_agree():
    text = (ROOT / "docs/results/capture-loop.md").read_text()
    assert text.count("<!-- recorded: ") == 4
    assert loop.page(text, ROOT / "docs/results/bench") == text


def test_a_part_nobody_makes_and_a_record_that_is_not_there_are_one_sentence(tmp_path):
    with pytest.raises(BadInput, match="no table called other; there are loop, apart"):
        loop.page("<!-- recorded: other -->\n<!-- end -->", tmp_path)
    with pytest.raises(BadInput, match=r"loop\.json is not there; record it first"):
        loop.page("<!-- recorded: loop -->\n<!-- end -->", tmp_path)
