"""From readings through the runtime's own mechanisms and sinks to a true estimate, and what a liar could do to it."""

import json

import numpy as np
import pytest

from tests.support import bundles
from tests.support.once import nightly_but
from tests.support.promised import collector_bundles as reports

N = 6_000


@pytest.fixture
def collected(edgeveil):
    def run(bundle, *words):
        code, out, err = edgeveil("local", "collect", bundle.path, "--trust", bundle.trust, *words, "--json")
        assert code == 0, err
        return json.loads(out)

    return run


@pytest.mark.parametrize("op", nightly_but(("duchi-linf", "hybrid", "duchi-l2", "laplace"), "duchi-linf"))
def test_a_mean_of_vectors(tmp_path, collected, op):
    bundle = reports.made(tmp_path, op, alpha=4.0)
    # Within the unit ball, so that duchi-l2 shortens nothing.
    x = np.clip(np.random.default_rng(0).normal([6, 8, 10, 9], 1.2, (N, 4)).round(), 5, 11).astype(np.uint8)
    reports.run(bundle, x, f"npz:{tmp_path / 'out.npz'}")
    found = collected(bundle, "--from", f"npz:{tmp_path / 'out.npz'}", "--estimate", "mean")
    ends = np.array(found["interval_95"])
    half = (ends[:, 1] - ends[:, 0]) / 2
    assert (half < 1.0).all()
    assert (np.abs(np.array(found["mean"]) - x.mean(axis=0)) < 3 * half).all()  # 5.9 standard errors
    assert found["reports"] == {"counted": N, "refused": {}, "senders": 1}
    assert found["units"] == N
    assert found["epsilon"] == 4.0
    assert found["mechanism"] == op


@pytest.mark.parametrize("op", nightly_but(("k-rr", "hrr", "oue", "rappor"), "k-rr"))
def test_a_histogram_of_categories(tmp_path, collected, op):
    bundle = reports.made(tmp_path, op, alpha=2.0)
    # No level that is asked for lies on a border of two classes: its answer would be a toss of the noise.
    classes = np.random.default_rng(1).choice(4, N, p=[0.6, 0.3, 0.1, 0.0])
    x = (np.eye(4)[classes] * 16).astype(np.uint8)
    reports.run(bundle, x, f"npz:{tmp_path / 'out.npz'}")
    words = ("--from", f"npz:{tmp_path / 'out.npz'}", "--estimate")
    found = collected(bundle, *words, "histogram")
    truth = np.bincount(classes, minlength=4) / N
    ends = np.array(found["interval_95"])
    half = (ends[:, 1] - ends[:, 0]) / 2
    assert (half < 0.1).all()
    assert (np.abs(np.array(found["shares"]) - truth) < 3 * half).all()  # 5.9 standard errors
    assert found["projected"]["method"] == "euclidean-simplex"
    assert min(found["projected"]["shares"]) >= 0
    assert sum(found["projected"]["shares"]) == pytest.approx(1)
    (median,) = collected(bundle, *words, "median")["median"]
    assert median["interval_95"][0] <= 0 <= median["interval_95"][1] <= 1
    quantiles = collected(bundle, *words, "quantiles")["quantiles"]
    assert [one["category"] for one in quantiles if one["level"] in (0.25, 0.75)] == [0, 1]


@pytest.mark.parametrize("op", nightly_but(("cms", "hcms"), "cms"))
def test_a_histogram_of_a_sketch(tmp_path, edgeveil, collected, op):
    bundle = reports.made(tmp_path, op, alpha=4.0)
    classes = np.random.default_rng(1).choice(4, N, p=[0.6, 0.3, 0.1, 0.0])
    reports.run(bundle, (np.eye(4)[classes] * 16).astype(np.uint8), f"npz:{tmp_path / 'out.npz'}")
    words = ("--from", f"npz:{tmp_path / 'out.npz'}", "--estimate")
    found = collected(bundle, *words, "histogram")
    low, high = np.array(found["interval_95"]).T
    truth = np.bincount(classes, minlength=4) / N
    assert ((low <= truth) & (truth <= high)).all()
    # 4 functions to 8 places: collisions are most of the error, and more reports would not make it less.
    assert (high - low) / 2 == pytest.approx(1.96 / np.sqrt(4 * 7), rel=0.05)
    assert (found["mechanism"], found["reports"]["counted"]) == (op, N)
    code, _, err = edgeveil("local", "collect", bundle.path, "--trust", bundle.trust, *words, "median")
    assert code == 2
    assert "Ask for histogram" in err


@pytest.mark.nightly  # by day files, above
def test_lines_and_files_say_the_same(tmp_path, collected):
    bundle = reports.made(tmp_path, "duchi-linf")
    x = np.full((3000, 4), 12, np.uint8)
    reports.run(bundle, x, f"npz:{tmp_path / 'out.npz'}")
    rows = np.load(tmp_path / "out.npz")["x"]
    (tmp_path / "out.csv").write_text("\n".join(",".join(map(str, row)) for row in rows.tolist()) + "\n")
    one = collected(bundle, "--from", f"npz:{tmp_path / 'out.npz'}", "--estimate", "mean")
    two = collected(bundle, "--from", f"csv:{tmp_path / 'out.csv'}", "--estimate", "mean")
    assert one == two


def test_what_is_no_report_is_refused_and_counted(tmp_path, collected):
    bundle = reports.made(tmp_path, "duchi-linf")
    good = np.sign(np.random.default_rng(2).normal(size=(50, 4))).astype(np.int8)
    bad = np.array([[2, 1, 1, 1], [0, 1, 1, 1]], np.int8)
    np.savez(tmp_path / "r.npz", x=np.concatenate([good, bad, good[:3]]), index=np.append(np.arange(52), [7, 8, 7]))
    found = collected(bundle, "--from", f"npz:{tmp_path / 'r.npz'}", "--estimate", "mean")
    assert found["reports"] == {"counted": 50, "refused": {"outside the alphabet": 2, "unknown slot": 3}, "senders": 1}
    np.savez(tmp_path / "good.npz", x=good, index=np.arange(50))
    alone = collected(bundle, "--from", f"npz:{tmp_path / 'good.npz'}", "--estimate", "mean")
    assert found["mean"] == alone["mean"]
    assert "interval_95" in found
    assert found["interval_95"] is None
    assert "100 units" in found["no_interval"]
    (tmp_path / "r.csv").write_text("1,1,-1,1\n1,1,1\nhello\n\n1,1,-1,300\n-1,1,1,1\n")
    found = collected(bundle, "--from", f"csv:{tmp_path / 'r.csv'}", "--estimate", "mean")
    assert found["reports"] == {"counted": 2, "refused": {"of another format": 4}, "senders": 1}


def test_one_liar_moves_a_mean_by_so_much_and_no_more(tmp_path, collected):
    bundle = reports.made(tmp_path, "duchi-linf")
    honest = np.sign(np.random.default_rng(3).normal(size=(200, 4))).astype(np.int8)
    means = []
    for lie in (-1, 1):
        np.savez(tmp_path / f"liar{lie}.npz", x=np.full((1, 4), lie, np.int8), index=np.array([0]))
        np.savez(tmp_path / "honest.npz", x=honest, index=np.arange(200))
        files = ("--from", f"npz:{tmp_path / 'honest.npz'}", "--from", f"npz:{tmp_path / f'liar{lie}.npz'}")
        found = collected(bundle, *files, "--estimate", "mean")
        means.append(np.array(found["mean"]))
    assert found["influence"]["one_report"] == pytest.approx(np.max(means[1] - means[0]))
    assert found["influence"]["one_sender"] == pytest.approx(200 * found["influence"]["one_report"])
    assert found["reports"]["senders"] == 2


def test_a_subject_is_one_unit_whatever_it_sends(tmp_path, collected):
    bundle = reports.made(tmp_path, "duchi-linf", unit="subject")
    for place in range(120):
        row = np.full((10, 4), 1 if place % 2 else -1, np.int8)
        np.savez(tmp_path / f"{place}.npz", x=row, index=np.arange(10))
    files = [word for place in range(120) for word in ("--from", f"npz:{tmp_path / f'{place}.npz'}")]
    found = collected(bundle, *files, "--estimate", "mean")
    assert found["units"] == 120
    ends = np.array(found["interval_95"])[0]
    one = found["influence"]["one_report"] * 1200 / 2  # B times the radius
    assert (ends[1] - ends[0]) / 2 == pytest.approx(1.959964 * one / np.sqrt(119))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--from", "npz:{folder}/none.npz", "--estimate", "mean"], "was expected at"),
        (["--from", "npz:{folder}/other.npz", "--estimate", "mean"], "another bundle's"),
        (["--from", "npz:{folder}/empty.npz", "--estimate", "mean"], "nothing came"),
        (["--from", "csv:{folder}/none.csv", "--estimate", "mean"], "No such file"),
        (["--from", "csv:{folder}/words.csv", "--estimate", "mean"], "2 of another format"),
        (["--from", "npz:{folder}/r.npz", "--estimate", "histogram"], "ask for mean"),
        (["--from", "npz:{folder}/r.npz", "--estimate", "mean", "--output", "label"], "one of report"),
        (["--from", "mqtt://localhost/hall", "--estimate", "mean"], "--until 1000 (reports) or --until 60s"),
        (["--from", "http://localhost/hall", "--estimate", "mean"], "mqtt://HOST/TOPIC"),
    ],
)
def test_bad_input_is_one_sentence(tmp_path, edgeveil, words, said):
    bundle = reports.made(tmp_path, "duchi-linf")
    np.savez(tmp_path / "r.npz", x=np.ones((3, 4), np.int8), index=np.arange(3))
    np.savez(tmp_path / "empty.npz", x=np.ones((0, 4), np.int8), index=np.arange(0))
    np.savez(tmp_path / "other.npz", x=np.ones((3, 5), np.int8), index=np.arange(3))
    (tmp_path / "words.csv").write_text("a\nb\n")
    words = [word.format(folder=tmp_path) for word in words]
    code, out, err = edgeveil("local", "collect", bundle.path, "--trust", bundle.trust, *words)
    assert (code, out) == (2, "")
    assert said in err
    assert "Traceback" not in err


def test_a_bundle_without_a_promise_is_refused(tmp_path, edgeveil):
    bundle = bundles.make_bundle(tmp_path, example=bundles.channel_example())
    words = ["--trust", str(bundle.trust), "--from", "csv:-", "--estimate", "histogram"]
    code, _, err = edgeveil("local", "collect", bundle.path, *words)
    assert code == 2
    assert "has no spending" in err
