"""An envelope has one spelling, a key counts once, and a signature is valid for one kind of text and one schema."""

import json

import pytest

from edgeveil.edge_runtime.errors import BundleRefused
from edgeveil.edge_runtime.signing.envelope import message, parse, unwrap, wrap, wrap_all
from edgeveil.edge_runtime.util import strict_json
from tests.edge_runtime.bundle.signed_trust import envelope, private, public, role

PAYLOAD = strict_json.dumps({"a": 1})


def two():
    return envelope("kind", {"a": 1}, ["ann", "bob"])


def one():
    return envelope("kind", {"a": 1}, ["ann"], schema=1)


def reason_of(data, kind="kind"):
    with pytest.raises(BundleRefused) as refused:
        unwrap(kind, data, lambda signers: None)
    return refused.value.reason


@pytest.mark.parametrize("make", [one, two])
def test_what_is_signed_is_read(make):
    signers = []
    assert unwrap("kind", make(), signers.append) == {"a": 1}
    assert signers == [frozenset(public(name).key for name in (["ann"] if make is one else ["ann", "bob"]))]


@pytest.mark.parametrize("make", [one, two])
def test_no_signature_and_no_key_has_a_second_spelling(make):
    data = make()
    document = json.loads(data)
    entry = document["signatures"][0] if make is two else document
    for name in ("key", "signature"):
        right = entry[name]
        for other in (right.upper(), f" {right}", f"{right} ", f"{right[:2]} {right[2:]}", right[:-2], right + "00"):
            assert other != right
            assert reason_of(data.replace(right.encode(), other.encode())) == "signature-format"
    for other in (data + b"\n", b" " + data, data.replace(b",", b", "), data.replace(b'"schema"', b'"Schema"')):
        assert reason_of(other) in ("signature-format", "schema")
    assert reason_of(json.dumps(document, indent=1).encode()) == "signature-format"


def test_signatures_are_sorted_and_none_stands_twice():
    document = json.loads(two())
    first, second = document["signatures"]
    for listed in ([second, first], [first, first], [first, second, second]):
        assert reason_of(strict_json.dumps({**document, "signatures": listed})) == "signature-format"


def test_the_same_signature_twice_does_not_reach_a_threshold_of_two():
    """By whatever way it comes: the list is refused, and a role counts keys, not signatures."""
    wanted = role(["ann", "bob"], 2)
    alone = envelope("kind", {"a": 1}, ["ann"])
    with pytest.raises(BundleRefused) as refused:
        unwrap("kind", alone, lambda signers: wanted.check(signers, "kind", "kind"))
    assert refused.value.reason == "below-threshold"
    with pytest.raises(BundleRefused) as refused:
        wanted.check([public("ann").key] * 2, "kind", "kind")
    assert refused.value.reason == "below-threshold"


@pytest.mark.parametrize("place", [0, 1])
def test_every_signature_must_be_valid_whoever_made_it(place):
    """Else its bytes could be others, and one that nobody made would count."""
    document = json.loads(two())
    entry = document["signatures"][place]
    entry["signature"] = private("eve").sign(message("kind", PAYLOAD, 2)).hex()
    assert reason_of(strict_json.dumps(document)) == "bad-signature"


def test_a_signature_is_of_one_kind_and_one_schema():
    assert reason_of(two(), "other") == "bad-signature"
    signature = private("ann").sign(message("kind", PAYLOAD, 1))
    assert reason_of(wrap_all(PAYLOAD, {public("ann").key: signature})) == "bad-signature"
    signature = private("ann").sign(message("kind", PAYLOAD, 2))
    assert reason_of(wrap(PAYLOAD, public("ann").key, signature)) == "bad-signature"


@pytest.mark.parametrize(
    "data",
    [b"", b"[]", b"{}", b"null", b"7", b'{"schema":3}', b'{"schema":true}', b'{"schema":"2"}', b"{" * 99, b"\xff"],
)
def test_what_is_no_envelope_is_refused(data):
    with pytest.raises(BundleRefused):
        parse("kind", data)


@pytest.mark.parametrize("listed", [None, {}, "x", [[]], [{}], [{"key": 1, "signature": 2}], [{"key": "a" * 64}]])
def test_what_is_no_list_of_signatures_is_refused(listed):
    document = json.loads(two())
    assert reason_of(strict_json.dumps({**document, "signatures": listed})) in ("signature-format", "bad-count")


def test_there_are_at_most_sixteen():
    assert reason_of(envelope("kind", {}, [str(number) for number in range(17)])) == "bad-count"
    assert unwrap("kind", envelope("kind", {}, [str(number) for number in range(16)]), lambda _: None) == {}
