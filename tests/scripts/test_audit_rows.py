"""Audits of both schemas are compared number by number."""

import json

import pytest

from scripts import audit_rows

AUDIT = {
    "adversaries": [{"name": "one", "learned_on": "old", "seed": 0, "accuracy": 0.5, "seconds": 3.0}],
    "warnings": ["text"],
    "sure": True,
}


def test_numbers_have_their_place_and_times_are_left_out():
    assert dict(audit_rows.numbers(AUDIT)) == {
        ".adversaries[one, old, 0].accuracy": 0.5,
        ".adversaries[one, old, 0].seed": 0,
    }


@pytest.mark.parametrize(("accuracy", "code"), [(0.5, 0), (0.5 + 1e-7, 0), (0.50001, 3)])
def test_a_number_that_differs_is_named_and_ends_with_3(tmp_path, capsys, accuracy, code):
    other = {**AUDIT, "adversaries": [{**AUDIT["adversaries"][0], "accuracy": accuracy, "seconds": 9.0}]}
    files = [tmp_path / name for name in ("old.json", "new.json")]
    for file, document in zip(files, (AUDIT, other), strict=True):
        file.write_text(json.dumps(document))
    assert audit_rows.compare(*files) == code
    said = capsys.readouterr().out
    assert ("adversaries[one, old, 0].accuracy was 0.5, now 0.50001" in said) is (code == 3)
    assert f"2 numbers in both, {int(code == 3)} differ; 0 in the first alone" in said
