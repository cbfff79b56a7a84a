"""audit.json, the text of it and the one sentence say the same, and say it honestly."""

import copy
import json
import re

import jsonschema
import pytest

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.audit.card import as_text, closing, next_step, summary
from edgeveil.trainer.audit.document import save
from edgeveil.trainer.audit.verdict import sentence
from tests.support.audit_documents import before, document
from tests.support.checkout import ROOT

SCHEMA = json.loads((ROOT / "docs/reference/schemas" / "audit.schema.json").read_text())


def test_the_document_is_of_its_schema():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    jsonschema.Draft202012Validator(SCHEMA).validate(document())


@pytest.mark.parametrize(
    "harm",
    [
        lambda d: d.pop("label_only"),
        lambda d: d.update(host="somewhere"),
        lambda d: d["adversaries"][0].update(kind="honest"),
        lambda d: d["worst_adaptive"].update(kind="fixed"),
        lambda d: d["target"].update(accuracy=1.2),
        lambda d: d["speaks_of"].update(x={"generator": "no hash"}),
    ],
)
def test_the_schema_refuses_what_is_not_an_audit(harm):
    harmed = copy.deepcopy(document())
    harm(harmed)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft202012Validator(SCHEMA).validate(harmed)


def test_the_worst_is_chosen_on_validation_and_reported_on_test():
    worst = document()["worst_adaptive"]
    assert worst["name"] == "BatchNorm MLP"
    assert worst["accuracy"] == 0.95
    assert "validation" in worst["chosen_on"]


def test_most_bits_may_be_another_attack():
    assert document(bits=0.2)["most_bits"]["name"] == "logistic regression"


def test_saved_whole_and_read_back(tmp_path):
    one = document()
    path = save(one, tmp_path, others=[document(best=0.7)])
    assert path == tmp_path / "audit.json"
    read = json.loads(path.read_text())
    jsonschema.Draft202012Validator(SCHEMA).validate(read)
    assert {name: value for name, value in read.items() if name != "others"} == json.loads(json.dumps(one))
    assert read["others"][0]["worst_adaptive"]["accuracy"] == 0.7


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
    assert "59.0 %" in text  # the majority chance
    assert "60.0 %" in text  # the prior one


def test_sentence_says_that_it_leaks():
    words = sentence(document())
    assert "but it leaks less-than-five" in words
    assert "95.0 %" in words
    assert "60.0 %" in words
    assert "55.0 % (non-adaptive)" in words
    assert words.count(". ") == 0  # one sentence
    assert words.endswith(".")


def test_sentence_never_boasts_of_an_adversary_that_was_not_fooled():
    assert "non-adaptive" not in sentence(document(fixed=0.96))


def test_sentence_that_holds_claims_no_guarantee():
    words = sentence(document(best=0.61))
    assert "hides less-than-five to within 5 points and 0.05 bits from every attack tried" in words
    assert "not a guarantee" in words


def test_bits_without_accuracy_leak():
    words = sentence(document(best=0.6, bits=0.3))
    assert "but it leaks" in words
    assert "logistic regression on fresh rows gains at least 0.290 bits" in words


def test_a_document_of_before_is_read_and_never_flattered():
    words = sentence(before(document(best=0.6)))
    assert "cannot tell whether it hides" in words
    assert "Audit again" in words
    assert "but it leaks" in sentence(before(document(best=0.95)))
    assert "Audit again" in as_text(before(document(best=0.6)))
    jsonschema.Draft202012Validator(SCHEMA).validate(before(document()))


def test_text_says_what_else_can_be_read_and_on_which_rows_the_attack_was_tested_apart():
    lines = as_text(document()).splitlines()
    assert (
        "What else can be read: whether digit is below 3, AUC 0.80 [0.78, 0.82] and 0.210 [0.190, 0.230] bits beyond "
        "y, the worst of 521 questions about labels that the data know; less-than-five itself, which is to "
        "be hidden, 0.53 [0.51, 0.55]."
    ) in lines
    assert any("surest twentieth" in line and "70.0 %; 60.0 %; +0.010" in line and "0.600" in line for line in lines)
    assert any("wrong label" in line and "too few" in line for line in lines)
    assert any("colour" in line and "not asked: y alone tells it" in line for line in lines)


def test_nothing_else_is_read_where_no_question_is_surely_answered_or_there_is_none():
    made = document()
    made["what_else"]["worst"]["read"] = False
    assert "What else can be read: nothing for sure beyond y, of 521 questions" in as_text(made)
    made["what_else"].update(labels=made["what_else"]["labels"][:1], worst=None)
    assert "the data name no label beyond y and z" in as_text(made)


def test_text_says_who_is_exposed_most_whether_more_data_would_help_and_what_is_too_little():
    text = as_text(document())
    assert "recalls the most exposed z in 95.0 % of its 290 test rows" in text
    assert "BatchNorm MLP by its training rows: 91.0 % of 491, 95.0 % of 982; still rising" in text
    assert "Too little: Too few people: 30 are needed." in text
    older = document()
    for part in (older, older["label_only"]):
        del part["learning_curve"], part["warnings"]
        for row in (*part["adversaries"], part["worst_adaptive"]):
            for name in [name for name in row if name.startswith(("tpr", "worst_class", "balanced"))]:
                del row[name]
    assert "best attack found" in as_text(older)


def test_an_audit_ends_with_what_is_kept_what_leaks_and_what_is_certified():
    kept, leaks, certified = summary(document(best=0.95)).splitlines()[-3:]
    assert as_text(document(best=0.95)).splitlines()[-3:] == [kept, leaks, certified]
    assert re.match(r"Kept: parity is read right \d+\.\d % \[\d+\.\d %, \d+\.\d %\] \(of raw samples", kept)
    assert leaks.startswith("Leaks beyond parity: yes, surely. The best attack found (BatchNorm MLP) reads ")
    assert "less-than-five right 95.0 % [" in leaks
    assert "parity alone gives 60.0 %" in leaks
    assert re.search(r"most bits: [+-]\d\.\d{3} \[", leaks)
    assert certified.startswith(("Certified: no bound. ", "Certified: No code raises", "Certified: With"))


def test_what_is_certified_is_the_bound_for_every_code_or_that_there_is_none():
    made = document()
    made["certificate"] = {"given": False, "sentence": "No certificate: made frames."}
    assert closing(made)[2] == "Certified: no bound. No certificate: made frames."
    made["certificate"] = {"given": True, "sentence": "averaged", "per_code": {"given": True, "sentence": "per code"}}
    assert closing(made)[2] == "Certified: per code"
    made["certificate"]["per_code"]["given"] = False
    assert closing(made)[2] == "Certified: averaged"


def test_the_next_step_goes_by_the_verdict(tmp_path):
    seal = f"Next: edgeveil seal {tmp_path} --key keys/signing.key --out FILE.veil"
    assert "its card says that it leaks" in next_step(document(best=0.95), tmp_path)
    assert next_step(document(best=0.61), tmp_path) == seal
    assert "nothing found; holds to within" in closing(document(best=0.61))[1]
