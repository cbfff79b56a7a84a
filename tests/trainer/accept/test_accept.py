"""``edgeveil accept``: a verdict with intervals from tallies, and one sentence for what are none."""

import json

import numpy as np
import pytest

from edgeveil.edge_runtime.bundle.reader import read_bundle
from edgeveil.edge_runtime.bundle.trust_store import open_trust
from edgeveil.edge_runtime.sinks import open_sink
from edgeveil.trainer.accept.judge import Demands, judge, matched
from edgeveil.trainer.accept.tallies_file import SiteTallies, TappedLine
from tests.support import bundles

NAMES = ["one", "two", "three", "four"]
P = np.array([0.4, 0.3, 0.2, 0.1])


def audited(manifest, members):
    manifest["perturber"]["target_classes"] = NAMES
    document = bundles.audit_document(manifest, "numpy", members)
    document["histogram"] = {"output": "label", "counts": [240, 180, 119, 60], "effective": 599.0, "blank": 0}
    bundles.add_audit(manifest, members, document)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return bundles.make_bundle(tmp_path_factory.mktemp("site"), change=audited)


@pytest.fixture(scope="module")
def bundle(made):
    return read_bundle(made.path, open_trust(made.trust))


def tallies(bundle, *, slips=0.05, law=P, seed=0, taps=10, **change):
    """Half an hour of taps of one who slips now and then, and of what left."""
    rng, y = np.random.default_rng(seed), []
    for minute in range(30):
        for _ in range(taps):
            there, slipped = int(rng.integers(4)), rng.random() < slips
            y.append({"minute": minute, "y": (there + slipped) % 4, "y_hat": there, "taps": 1})
    left = {"output": "label", "counts": [*rng.multinomial(500, law).tolist(), 0], "effective": 400.0}
    head = {"kind": "edgeveil-acceptance", "schema": 1, "bundle": "numpy-example", "minutes": 30.0, "seconds": 1800}
    head |= {"manifest_sha256": bundle.manifest_sha256, "taps": len(y)}
    return {**head, "y": y, "counts": [], "histogram": left, **change}


def verdict(bundle, document, **demands):
    return judge(SiteTallies.model_validate(document), bundle, Demands(**demands))


def test_a_good_site_is_accepted_although_a_hand_slips(bundle):
    found = verdict(bundle, tallies(bundle), y=0.9)
    assert found["verdict"] == "accepted"
    assert 0.9 <= found["y"]["low"] < found["y"]["accuracy"] < found["y"]["high"] < 1
    assert found["shift"]["word"] == "accepted"
    assert found["shift"]["low"] == 0
    assert found["counts"] == {"word": "not judged", "why": "this bundle counts nobody"}
    assert sum(one["taps"] for one in found["y"]["by_class"].values()) == 300


def test_another_sensor_is_an_alarm_even_if_y_is_right(bundle):
    found = verdict(bundle, tallies(bundle, law=[0, 0, 0.1, 0.9]), y=0.9)
    assert found["y"]["word"] == "accepted"
    assert found["shift"]["word"] == found["verdict"] == "refused"
    assert found["shift"]["low"] > 0.25


def test_a_sensor_that_reads_worse_than_audited_is_refused(bundle):
    found = verdict(bundle, tallies(bundle, slips=0.3))
    assert found["y"]["least"] == pytest.approx(0.91)  # the lower end of the audit's interval, less 5 points
    assert found["y"]["word"] == found["verdict"] == "refused"


@pytest.mark.parametrize("change", [{"taps": 1}, {"histogram": None}, {"y": []}])
def test_too_little_tells_neither_way(bundle, change):
    taps = change.pop("taps", 10)
    found = verdict(bundle, tallies(bundle, taps=taps, **change), y=0.9)
    wanted = {(1,): "cannot tell"}.get((taps,), "accepted" if "histogram" in change else "cannot tell")
    assert found["verdict"] == wanted


def test_a_tap_may_come_a_moment_before_or_after_its_count():
    def period(number, tapped, counted):
        return TappedLine(period=number, line="door", tapped=[tapped, 0], counted=[counted, 0])

    late = [period(0, 1, 2), period(1, 2, 1), period(2, 0, 3), period(5, 3, 0)]
    found = matched(late, 0)
    assert found.right.sum() == 3
    assert found.missed.tolist() == [0, 0, 0, 3]  # period 2 is not next to 5
    assert found.extra.tolist() == [0, 0, 3, 0]
    none = matched(late, 1)
    assert none.right.sum() == none.missed.sum() == none.extra.sum() == 0


def test_the_command_asks_a_running_preview(made, bundle, edgeveil, tmp_path):
    token = "0123456789abcdef-site"  # noqa: S105 - of this test alone
    (tmp_path / "token").write_text(token)
    privacy = bundle.members[bundle.manifest.privacy.file]
    options = {"manifest_sha256": bundle.manifest_sha256, "privacy": privacy}
    sink = open_sink(f"preview:0?accept=30m&token={token}", bundle.manifest.outputs, bundle.manifest, options)
    at = f"http://127.0.0.1:{sink.port}/accept"
    words = ["accept", made.path, "--trust", made.trust, "--tallies", at, "--token-file", tmp_path / "token"]
    code, out, err = edgeveil(*words, "--out", tmp_path / "site.json")
    assert (code, json.loads((tmp_path / "site.json").read_text())["verdict"]) == (3, "cannot tell")
    assert "verdict: cannot tell" in out
    assert "is not accepted here" in err
    code, _, err = edgeveil(*words[:-2])
    assert (code, "403, and no tallies: give its token with --token-file" in err) == (2, True)
    sink.close()
    code, _, err = edgeveil(*words)
    assert (code, "cannot be reached" in err) == (4, True)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"manifest_sha256": "0" * 64}, "not of this very bundle"),
        ({"taps": "many"}, "taps: Input should be a valid integer"),
        ({"rows": []}, "rows: Extra inputs are not permitted"),
        ({"histogram": {"output": "label", "counts": [1, 2], "effective": 3.0}}, "of other codes"),
        ({"kind": "edgeveil-audit"}, "kind: Input should be 'edgeveil-acceptance'"),
    ],
)
def test_what_are_no_tallies_of_it_is_said(made, bundle, edgeveil, tmp_path, change, words):
    (tmp_path / "tallies.json").write_text(json.dumps({**tallies(bundle), **change}))
    asked = ["accept", made.path, "--trust", made.trust, "--tallies", tmp_path / "tallies.json"]
    code, out, err = edgeveil(*asked)
    assert (code, out) == (2, "")
    assert words in err
    assert "Traceback" not in err


def test_accepted_ends_with_zero_and_says_what_was_found(made, bundle, edgeveil, tmp_path):
    (tmp_path / "tallies.json").write_text(json.dumps(tallies(bundle)))
    asked = ["accept", made.path, "--trust", made.trust, "--tallies", tmp_path / "tallies.json"]
    code, out, _ = edgeveil(*asked, "--least-y", 0.9)
    assert code == 0
    assert "verdict: accepted" in out
    assert "shift of the codes from the audit" in out
    code, out, _ = edgeveil(*asked, "--least-y", 0.9, "--json")
    assert (code, json.loads(out)["verdict"]) == (0, "accepted")
    code, _, err = edgeveil(*asked, "--token-file", tmp_path / "none")
    assert (code, "these tallies are a file" in err) == (2, True)


@pytest.mark.parametrize("place", ["http://127.0.0.1:xx", "http://[::1", "http://127.0.0.1:0", "http://"])
def test_an_address_that_is_none_is_said(made, edgeveil, place):
    code, _, err = edgeveil("accept", made.path, "--trust", made.trust, "--tallies", place)
    assert (code, "A preview was expected as http://HOST:PORT" in err) == (2, True)
