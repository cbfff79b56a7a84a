"""From file to file with a bundle that counts: exit code 3 when the budget is spent, 2 without a ledger."""

import json

import numpy as np
import pytest

from edgeveil.edge_runtime.cli.main import main
from tests.support import bundles
from tests.support.broker_services import file_arguments
from tests.support.promised.counted_bundles import MACHINE, counted_example


@pytest.fixture
def ledger(tmp_path, monkeypatch):
    (tmp_path / "machine-id").write_text(MACHINE + "\n")
    monkeypatch.setattr("edgeveil.edge_runtime.machine._MACHINE_IDS", (str(tmp_path / "machine-id"),))
    assert main(["ledger", "new", str(tmp_path / "ledger")]) == 0
    return tmp_path / "ledger"


def lines(path, count, subjects=None):
    rows = [[i % 16, 1, 2, 3] for i in range(count)]
    if subjects:
        rows = [[row[0], subjects[i % len(subjects)], *row[1:]] for i, row in enumerate(rows)]
    path.write_text("".join(",".join(map(str, row)) + "\n" for row in rows))
    return path


def run(made, source, out, *words):
    return main([*file_arguments(made, source, f"csv:{out}"), *words])


def left(out):
    return len(out.read_text().splitlines())


def test_the_command_ends_with_three_and_what_left_was_paid_for(tmp_path, ledger, capsys):
    made, source = bundles.make_bundle(tmp_path, example=counted_example(releases=10)), lines(tmp_path / "in.csv", 25)
    words = ["--ledger", str(ledger)]
    assert run(made, f"csv:{source}", tmp_path / "1.csv", *words) == 3
    shown = capsys.readouterr()
    document = json.loads(shown.out[shown.out.index("{") :])
    assert (document["frames_in"], document["frames_out"], document["dropped"]) == (25, 10, {"budget-spent": 15})
    assert "15 frames did not leave" in shown.err
    assert left(tmp_path / "1.csv") == 10
    assert run(made, f"csv:{source}", tmp_path / "2.csv", *words) == 3
    assert left(tmp_path / "2.csv") == 0
    capsys.readouterr()
    assert main(["ledger", "show", str(ledger), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["device_epsilon"] == pytest.approx(16.09438)
    assert main(["ledger", "show", str(ledger)]) == 0
    assert "epsilon 16.0944, in 1 charges" in capsys.readouterr().out


def test_frames_one_by_one_are_paid_for_too(tmp_path, ledger):
    made = bundles.make_bundle(tmp_path, example=counted_example(releases=10))
    np.savez(tmp_path / "in.npz", x=np.zeros((8, 4), np.uint8))
    for number, code in enumerate((0, 3)):
        out = tmp_path / f"{number}.csv"
        assert run(made, f"npz:{tmp_path}/in.npz", out, "--ledger", str(ledger)) == code
    assert left(tmp_path / "0.csv") == 8
    assert left(tmp_path / "1.csv") == 2


def test_each_subject_of_a_column_stops_for_itself(tmp_path, ledger):
    made = bundles.make_bundle(tmp_path, example=counted_example(releases=3, unit="subject"))
    source = lines(tmp_path / "in.csv", 12, ["anna", "ben", "anna", "carl"])
    words = ["--ledger", str(ledger), "--subject-column", "2"]
    assert run(made, f"csv:{source}", tmp_path / "out.csv", *words) == 3
    assert left(tmp_path / "out.csv") == 9
    assert b"anna" not in ledger.read_bytes()


@pytest.mark.parametrize(
    ("example", "words", "says"),
    [
        (counted_example(unit="subject"), ["--subject-column", "2"], "names a feature"),
        (counted_example(unit="subject"), ["--subject-column", "9"], "from 1 to 5"),
        (counted_example(), ["--subject-column", "5"], "counts every release alike"),
        (bundles.numpy_example(), ["--subject-column", "5"], "counts nothing"),
        (counted_example(unit="subject"), ["--subject-column", "5", "--inside-user", "nobody"], "files alone"),
    ],
)
def test_a_subject_column_that_is_none(tmp_path, ledger, capsys, example, words, says):
    made, source = bundles.make_bundle(tmp_path, example=example), lines(tmp_path / "in.csv", 5)
    assert run(made, f"csv:{source}", tmp_path / "out.csv", "--ledger", str(ledger), *words) == 2
    assert says in capsys.readouterr().err
    assert not (tmp_path / "out.csv").exists() or left(tmp_path / "out.csv") == 0


@pytest.mark.parametrize("data", [None, b"", b"{}"])
def test_without_a_whole_ledger_nothing_leaves(tmp_path, ledger, capsys, data):
    made, source = bundles.make_bundle(tmp_path, example=counted_example()), lines(tmp_path / "in.csv", 5)
    ledger.unlink() if data is None else ledger.write_bytes(data)
    assert run(made, f"csv:{source}", tmp_path / "out.csv", "--ledger", str(ledger)) == 2
    assert str(ledger) in capsys.readouterr().err
    assert not (tmp_path / "out.csv").exists()


def test_a_bundle_that_counts_nothing_needs_no_ledger(tmp_path):
    made, source = bundles.make_bundle(tmp_path), lines(tmp_path / "in.csv", 5)
    assert run(made, f"csv:{source}", tmp_path / "out.csv", "--ledger", str(tmp_path / "none")) == 0


@pytest.mark.parametrize("kind", ["csv", "npz"])  # in blocks, and frame by frame
def test_readings_beyond_the_public_bounds_are_clipped_and_counted_never_dropped(tmp_path, ledger, capsys, kind):
    made = bundles.make_bundle(tmp_path, example=counted_example(releases=10))
    rows = np.array([[1, 2, 3, 4], [1, 2, 3, 17], [200, 0, 0, 255], [16, 0, 0, 16]], np.uint8)
    if kind == "npz":
        np.savez(tmp_path / "in.npz", x=rows)
    else:
        np.savetxt(tmp_path / "in.csv", rows, "%d", ",")
    assert run(made, f"{kind}:{tmp_path}/in.{kind}", tmp_path / "out.csv", "--ledger", str(ledger)) == 0
    document = json.loads(capsys.readouterr().out.partition("{")[2].join(["{", ""]))
    assert (document["frames_out"], document["dropped"], document["clipped"]) == (4, {}, 2)
