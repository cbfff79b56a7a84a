"""audit.json, the text of it and the verdict say the same, and say it honestly; schema 1 is read for ever."""

import copy
import dataclasses
import json

import jsonschema
import pytest

from edgeveil.edge_runtime.bundle.audit_document import check_audit
from edgeveil.edge_runtime.bundle.audit_schema_1 import as_schema_2
from edgeveil.edge_runtime.errors import BadInput, BundleRefused
from edgeveil.trainer.audit.document import add_column, read, save
from edgeveil.trainer.audit.findings import LABEL_ONLY, Finding, attacks, best, findings, fixed, guess, kept, most_bits
from edgeveil.trainer.audit.text import answers_in_words, as_text, blocks, lines, next_step, summary
from edgeveil.trainer.audit.verdict import words
from scripts.audit_rows import fields
from tests.support.audit_documents import before, document, schema_1
from tests.support.checkout import ROOT

SCHEMA = json.loads((ROOT / "docs/reference/schemas" / "audit.schema.json").read_text())
OF_0_2 = ROOT / "tests" / "support" / "audit_of_0_2.json"  # of digits-codebook, as version 0.2 wrote it


def test_the_document_is_of_its_schema():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    jsonschema.Draft202012Validator(SCHEMA).validate(document())


@pytest.mark.parametrize(
    "harm",
    [
        lambda d: d.pop("findings"),
        lambda d: d.update(host="somewhere"),
        lambda d: d["findings"][0].update(figure="honesty"),
        lambda d: d["findings"][0].pop("question"),
        lambda d: d["findings"][0].update(vouched=True),
        lambda d: d["verdict"].update(word="holds"),
        lambda d: d["verdict"].update(findings=[0, 1, 2, 3]),
        lambda d: d["speaks_of"].update(x={"generator": "no hash"}),
    ],
)
def test_the_schema_refuses_what_is_not_an_audit(harm):
    harmed = copy.deepcopy(document())
    harm(harmed)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft202012Validator(SCHEMA).validate(harmed)


def test_the_best_attack_is_chosen_on_validation_and_reported_on_test():
    worst = best(document())
    assert worst.label == "BatchNorm MLP on fresh rows"
    assert worst.figures["right"].value == 0.95
    assert worst.figures["right"].chosen_by == 0.95


def test_most_bits_may_be_another_attack():
    assert most_bits(document(bits=0.2)).name == "logistic regression"


def test_findings_of_a_document_are_asked_by_output():
    made = document()
    assert kept(made).value == fixed(made).value == 0.96
    assert guess(made) == 0.6
    assert [one.name for one in attacks(made, LABEL_ONLY)] == [one.name for one in attacks(made)]
    assert best(made, LABEL_ONLY).figures["right"].value == 0.6
    assert {one.of for one in findings(made)} == {"sent", "label-only", "raw"}


def test_what_is_kept_is_what_the_reader_reads_that_was_best_on_validation():
    made, raw = document(), fixed(document())
    by = {"lucky on the test": (0.99, 0.5), "best": (0.98, 0.97)}
    made["findings"] += [
        dataclasses.replace(raw, name=name, value=value, chosen_by=chosen).as_json()
        for name, (value, chosen) in by.items()
    ]
    assert (kept(made).name, kept(made).value, fixed(made).value) == ("best", 0.98, 0.96)
    assert "98.0 %" in dict(answers_in_words(made))["What is kept"]


def test_a_finding_is_written_without_what_is_at_its_default_and_read_back():
    one = Finding("z", "a law", "right", 0.51234567, (0.5, float("inf")), more={"kind": "probe"})
    written = one.as_json()
    assert written == {
        "question": "z",
        "name": "a law",
        "figure": "right",
        "value": 0.512346,
        "interval": [0.5, None],
        "more": {"kind": "probe"},
    }
    assert Finding.from_json(written).as_json() == written
    with pytest.raises(TypeError):
        Finding.from_json({**written, "vouched": True})


def test_saved_whole_and_read_back(tmp_path):
    one = document()
    path = save(one, tmp_path, others=[document(best=0.7)])
    assert path == tmp_path / "audit.json"
    saved = json.loads(path.read_text())
    jsonschema.Draft202012Validator(SCHEMA).validate(saved)
    assert {name: value for name, value in saved.items() if name != "others"} == json.loads(json.dumps(one))
    assert best(saved["others"][0]).figures["right"].value == 0.7


def apart(old: object, new: object, path: str = "") -> list[str]:
    """The places at which two documents differ; numbers by more than they are rounded to."""
    if isinstance(old, dict) and isinstance(new, dict):
        return [place for key in {*old, *new} for place in apart(old.get(key), new.get(key), f"{path}.{key}")]
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        return [place for n, pair in enumerate(zip(old, new, strict=True)) for place in apart(*pair, f"{path}[{n}]")]
    if isinstance(old, float) and isinstance(new, float) and abs(old - new) <= 1e-6:
        return []
    return [] if old == new else [path]


def test_an_audit_of_0_2_is_read_as_findings_that_have_all_its_numbers():
    old, new = json.loads(OF_0_2.read_text()), read(OF_0_2)
    jsonschema.Draft202012Validator(SCHEMA).validate(new)
    again = fields(new)
    for part, was in ((again, old), (again["label_only"], old["label_only"])):
        for name in ("target", "chance", "adversaries", "not_run", "worst_adaptive", "most_bits", "learning_curve"):
            assert apart(was[name], part[name]) == [], name
        for name in ("permutation", "counting", "parts", "what_else"):
            assert apart(was[name], part[name]) == [], name
    assert again["raw"] == old["raw"]
    for asks, rows in old["probes"].items():
        shown = ("name", "value", "low", "high", "n", "chance", "not_run")
        picked = [{key: row[key] for key in shown if key in row} for row in again["probes"][asks]]
        assert apart([{key: row[key] for key in shown if key in row} for row in rows], picked) == []
    assert new["verdict"]["word"] == old["verdict"]["word"]
    assert new["verdict"]["upper"] == old["verdict"]["upper"]
    certified = [one for one in findings(new) if one.bound]
    assert [(one.name, one.value) for one in certified] == [
        ("counted channel", old["certificate"]["bound"]),
        ("worst code", old["certificate"]["per_code"]["factor"]),
        ("channel", None),
    ]
    assert certified[2].text == old["certificate"]["population_free"]
    assert "Cannot tell: upper ends of attacks reach" in summary(new)
    data = old["data"]
    spoken = {"speaks_of": old["speaks_of"], "pipeline": old["pipeline"]}
    assert check_audit(old, target=data["target"], sensitive=data["sensitive"], **spoken) == new


def test_what_findings_hold_is_what_rows_of_schema_1_held():
    """The way there and back, for every kind of finding of an attack."""
    made = document(bits=0.2)
    assert fields(as_schema_2(schema_1(made))) == fields(made)


def test_a_field_of_a_still_older_form_refuses_no_bundle():
    """What decides nothing is kept as it is, where it is not of the last form of schema 1."""
    old = schema_1(document())
    old["probes"] = {"linkage": [{"name": "pairs", "area": 0.5}]}
    old["parts"] = [{"name": "surest twentieth", "rows": 30}]
    spoken = {"speaks_of": old["speaks_of"], "pipeline": old["pipeline"]}
    new = check_audit(old, target="parity", sensitive="less-than-five", **spoken)
    kept_as_it_is = [one.more["found"] for one in findings(new) if one.kind == "schema 1"]
    assert kept_as_it_is == [old["parts"], old["probes"]]
    del old["adversaries"]
    with pytest.raises(BundleRefused, match="lacks something"):
        check_audit(old, target="parity", sensitive="less-than-five", **spoken)


def test_a_column_is_added_to_an_audit_of_0_2(tmp_path):
    (tmp_path / "audit.json").write_text(json.dumps(schema_1(document())))
    place = {"board": "Pi", "architecture": "aarch64", "system": "Linux", "python": "3.11"}
    add_column({**document(0.7), "on_board": place}, tmp_path)
    found = read(tmp_path / "audit.json")
    assert found["schema"] == 2
    assert best(found).figures["right"].value == 0.95
    assert best(found["others"][0]).figures["right"].value == 0.7


def test_an_audit_of_networks_that_never_ship_is_not_saved_as_the_card(tmp_path):
    with pytest.raises(BadInput, match="ships"):
        save({**document(), "artefact": "keras"}, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_text_calls_every_non_adaptive_number_that():
    text = as_text(document())
    lines = text.splitlines()
    for name in ("fixed D_z", "transfer"):
        assert all("non-adaptive" in line for line in lines if line.strip().startswith(name))
        assert sum(line.strip().startswith(name) for line in lines) == 2  # the perturber's and label-only's
    assert [line for line in lines if "best attack found" in line and line.strip().startswith("BatchNorm MLP")]
    assert "not run: gradient boosting stands in" in text
    assert next(line.split() for line in lines if line.startswith("  y alone")) == ["y", "alone", "60.0", "%"]
    assert not any(word in text for word in ("majority", "by prior", "chance 60"))
    assert "less-than-five (label-only, the floor)" in lines


def test_an_attack_that_did_not_run_for_several_questions_is_one_line():
    few, kind = "the samples are no pictures", {"kind": "adaptive"}
    made = [Finding(label, "BatchNorm CNN", not_run=few, more=kind) for label in ("z", "ink", "slant")]
    text = "\n".join(
        line for block in blocks([*made, Finding("z", "CNN", not_run=few, more=kind)]) for line in lines(block)
    )
    assert text.count("BatchNorm CNN") == 1
    assert f"not run: {few} (3 questions alike)" in text
    assert text.count(few) == 2


def test_under_y_itself_figures_stand_next_to_its_commonest_class():
    def shown(question):
        reader = Finding(question, "D", "right", 0.9, (0.8, 0.95), 0.6, more={"kind": "reader"})
        return "".join(lines(blocks([Finding("z", "prior", "right", 0.5, more={"kind": "guess"}), reader])[-1]))

    assert "; commonest class 60.0 %" in shown("y")
    assert "; y alone 60.0 %" in shown("z")


def test_one_attack_is_one_line_of_one_block():
    block = next(one for one in blocks(findings(document())) if one.attacked)
    assert [row.name for row in block.rows][2:] == [
        *("fixed D_z", "transfer", "logistic regression", "BatchNorm MLP", "CNN", "random forest")
    ]


def test_the_verdict_comes_first_and_names_what_it_rests_on():
    first, one, two, *_ = summary(document()).splitlines()
    assert first.startswith("Leaks: CNN on fresh rows reads less-than-five right at least 33.4 points more often than")
    assert one.startswith("  1. less-than-five: 96.0 % [94.0 %, 98.0 %]; y alone 60.0 % (right; CNN on fresh rows)")
    assert two.startswith("  2. less-than-five: 86.0 % [")
    assert summary(document()).count("\n") <= 8


def test_finding_nothing_claims_no_guarantee():
    assert words(document(best=0.61)) == (
        "nothing found: attacks tried reach at most 4.0 points above y alone, 0.010 bits, 4.0 points balanced (upper "
        "ends of 95 %), which is no guarantee"
    )


def test_bits_without_accuracy_leak():
    assert words(document(best=0.6, bits=0.3)).startswith(
        "leaks: logistic regression on fresh rows gains at least 0.290 bits per sample about less-than-five"
    )


def test_a_document_of_before_is_read_and_never_flattered():
    old = as_schema_2(before(document(best=0.6)))
    assert summary(old).startswith("Cannot tell: no attack learned on rows that the perturber never saw")
    assert "Audit again" in summary(old)
    assert summary(as_schema_2(before(document(best=0.95)))).startswith("Leaks: ")
    assert "Audit again" in as_text(old)


def test_text_says_what_else_can_be_read_and_on_which_rows_the_attack_was_tested_apart():
    lines = as_text(document()).splitlines()
    other = (
        ". Of other labels, which the verdict is not about, the worst: whether digit is below 3, "
        "AUC 0.800 [0.780, 0.820]."
    )
    assert [line for line in lines if line.startswith("What leaks: ") and line.endswith(other)]
    assert any("surest twentieth" in line and "right 70.0 % [50.0 %, 85.0 %]" in line for line in lines)
    assert any("wrong label" in line and "not run: 4 rows are too few" in line for line in lines)
    assert any(line.strip().startswith("label") and "not run: it follows from y" in line for line in lines)


def test_nothing_else_is_read_where_no_question_is_surely_answered():
    made = document()
    for one in made["findings"]:
        if one["more"].get("worst"):
            one["more"]["read"] = False
    assert "Of other labels" not in as_text(made)


def test_text_says_whether_more_data_would_help_and_what_is_too_little():
    text = as_text(document())
    assert "491 rows                                     right 91.0 % [89.0 %, 93.0 %]" in text
    assert "difference +4.0 % [+1.0 %, +7.0 %]" in text
    assert "Too little: Too few people: 30 are needed." in text


def test_an_audit_ends_with_what_is_kept_what_leaks_how_sure_and_what_next():
    *_, use, kept_line, leaks, sure, next_line, _ = ends = summary(document(best=0.95)).splitlines()
    assert as_text(document(best=0.95)).splitlines()[-6:] == ends[-6:]
    assert use == "What it is for: parity (y) is to be read from what is sent, less-than-five (z) is not."
    assert kept_line.startswith("What is kept: parity is read right 96.0 % [94.0 %, 98.0 %] of the time from what is")
    assert kept_line.endswith(". Beyond parity: ink 0.82 (correlation of x with x' within parity; label-only keeps 0).")
    assert leaks.startswith(
        "What leaks: The best attack found of 5 (BatchNorm MLP, trained on what is sent for rows that no "
        "training saw) reads less-than-five right 95.0 % "
        "[93.0 %, 97.0 %] of the time. A guess from parity alone is right 60.0 %."
    )
    assert sure.startswith("How sure: Surely")
    assert sure.endswith(" Allowed are 5 points above y alone and 0.05 bits.")
    assert next_line.startswith("What next: Do not rely on it to hide less-than-five.")


@pytest.mark.parametrize(
    ("share", "ends"), [(1.0, "1.88."), (0.992, "1.88, except for rare codes (0.8 % of samples).")]
)
def test_next_to_an_average_stands_what_one_code_shows(share, ends):
    made = document()
    more = {"kind": "certificate", "share": share}
    worst = Finding("channel", "worst code", "factor", 1.8701, (1.07, 1.8701), bound=True, more=more)
    made["findings"].append(worst.as_json())
    (sure,) = (line for line in as_text(made).splitlines() if line.startswith("How sure"))
    assert sure.endswith(f"That is on average; a single code raises a chance by a factor of at most {ends}")


def test_a_bound_stands_with_its_assumptions_where_it_is_asked_how_sure_that_is():
    made = document()
    law = Finding("less-than-five", "a law", "right", 0.64, bound=True, text="For one sample, at most 64.0 %.")
    made["findings"].append(law.as_json())
    place = len(made["findings"]) - 1
    for word, findings_of, shown in (
        ("bounded", [place], True),
        ("nothing found", [place], False),
        ("bounded", [], False),
    ):
        made["verdict"] = {"word": word, "line": "", "findings": findings_of, "reasons": [], "needed": None}
        (sure,) = (line for line in summary(made).splitlines() if line.startswith("How sure"))
        assert ("of every attack, tried or not. For one sample, at most 64.0 %." in sure) is shown


def test_what_is_promised_is_said():
    made = document()
    bound = Finding("training", "dp-sgd", "epsilon", 3.0, bound=True, text="A promise.")
    made["findings"].append(bound.as_json())
    assert "Promised: A promise." in as_text(made).splitlines()


def test_the_next_step_goes_by_the_verdict(tmp_path):
    seal = f"Next: edgeveil seal {tmp_path} --key keys/signing.key --out FILE.veil"
    assert "its card says that it leaks" in next_step(document(best=0.95), tmp_path)
    assert next_step(document(best=0.61), tmp_path) == seal
    assert "more test data may tell" in next_step(document(best=0.63), tmp_path)
