"""Vectors as lines: csv: and arff: in, csv: and npz: out, streaming; a bad line costs itself alone."""

import contextlib
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from edgeveil.edge_runtime.cli import main
from edgeveil.edge_runtime.errors import BadInput, PrivacyStop
from edgeveil.edge_runtime.manifest.manifest import Input, Output, Sampling
from edgeveil.edge_runtime.pipeline import batch
from edgeveil.edge_runtime.pipeline.perturber import Perturber
from edgeveil.edge_runtime.sinks import open_sink
from edgeveil.edge_runtime.sources import open_source
from edgeveil.edge_runtime.sources import text as lines
from edgeveil.edge_runtime.sources.series import TimedLines
from edgeveil.edge_runtime.util.atomic import WriteFailed
from tests.support import bundles

SPEC = Input("x", "vector", (3,), "float32", None, None)
FRAME = [Output("frame", "frame", "x_out", (6,), "float32", None)]


@pytest.fixture
def made(tmp_path):
    return bundles.make_bundle(tmp_path, example=bundles.cleaner_example())


def read(tmp_path, text, spec=SPEC, kind="csv"):
    """Numbers and rows that came, and what was refused."""
    path = tmp_path / "in.txt"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    found, refused = [], []
    with open_source(f"{kind}:{path}", spec) as source:
        while (block := source.next_block()) is not None:
            found += [(frame.index, frame._data.tolist()) for frame in block]
            refused += source.refused()
            assert all(frame._data.dtype == np.dtype(spec.dtype) for frame in block)
        refused += source.refused()
    return found, refused


@pytest.mark.parametrize("end", ["", "\n", "\r\n"])
def test_good_lines(tmp_path, end):
    found, refused = read(tmp_path, f"a,b,c\n1,2.5,-3e-2\n\n 4 , 5 ,6 {end}")
    assert found == [(2, [1, 2.5, pytest.approx(-0.03)]), (4, [4, 5, 6])]
    assert refused == []


BAD = {
    "1,2": "2 values, and 3 were expected",
    "1,2,3,4": "4 values, and 3 were expected",
    "1,nan,3": "value 2 is NaN",
    "1,2,inf": "value 3 is NaN, infinite",
    "1,2,1e39": "value 3 is NaN, infinite or not one that float32 can hold",
    "1,secret,3": "value 2 is not a number",
    "1,,3": "value 2 is not a number",
    "1,2 3,4": "value 2 is not a number",
    "1,1_0,4": "value 2 is not a number",
    "1,0x10,4": "value 2 is not a number",
    "1,\u0663,4": "value 2 is not a number",
    "#1,2,3": "value 1 is not a number",
    "a,b,c": "value 1 is not a number",
}


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("alone", [True, False])
def test_a_bad_line_is_refused_by_number_and_the_others_go_on(tmp_path, bad, alone):
    before = [] if alone else ["7,8,9"] * 5
    found, refused = read(tmp_path, "\n".join(["1,2,3", *before, bad, "4,5,6", "0,0,0"]))
    assert [row for _, row in found][-2:] == [[4, 5, 6], [0, 0, 0]]
    assert [number for number, _ in found] == [1, *range(2, 2 + len(before)), 3 + len(before), 4 + len(before)]
    ((number, problem),) = refused
    assert number == 2 + len(before)
    assert BAD[bad] in problem
    assert "secret" not in problem


def test_bytes_that_are_no_text(tmp_path):
    found, refused = read(tmp_path, b"1,2,3\n\xff\xfe,2,3\n4,5,6\n")
    assert [number for number, _ in found] == [1, 3]
    assert refused == [(2, "it is no UTF-8 text")]
    for text in (b"a\rb,c\n1,2,3\n", b"a,b,c\0\n1,2,3\n", b'"%b",2,3\n1,2,3\n' % (b"a" * 200_000)):
        assert read(tmp_path, text)[0] == [(2, [1, 2, 3])]


def test_whole_numbers_must_be_whole_and_within_their_type(tmp_path):
    spec = SPEC._replace(dtype="uint8", low=0, high=255)
    found, refused = read(tmp_path, "0,128,255\n0,1.5,2\n-1,2,3\n1,2,256\n1,2,3.0\n", spec)
    assert [row for _, row in found] == [[0, 128, 255], [1, 2, 3]]
    assert [number for number, _ in refused] == [2, 3, 4]


def test_a_line_without_an_end(tmp_path, monkeypatch):
    monkeypatch.setattr(lines, "LONGEST", 1000)
    monkeypatch.setattr(lines, "READ", 64)
    with pytest.raises(BadInput, match="line 2 has no end"):
        read(tmp_path, "1,2,3\n" + "9" * 100_000)


def test_blocks_cut_anywhere_are_put_together(tmp_path, monkeypatch):
    text = "".join(f"{i},{i / 7},{-i}\n" for i in range(500))
    whole, _ = read(tmp_path, text)
    monkeypatch.setattr(lines, "READ", 7)
    assert read(tmp_path, text) == (whole, [])
    assert len(whole) == 500


HEADER = "% made up\n@relation r\n@attribute a real\n@attribute b real\n@attribute c {C}\n@data\n"


@pytest.mark.parametrize(("kind", "value"), [("real", "2.5"), ("{no,yes}", "yes"), ("{0,2.5}", "2.5")])
def test_arff(tmp_path, kind, value):
    text = HEADER.replace("{C}", kind) + f"1,2,{value}\n% a comment\n1,2\n1,?,{value}\n3,4,{value}"
    found, refused = read(tmp_path, text, kind="arff")
    number = {"yes": 1.0}.get(value) or float(value)
    assert found == [(7, [1, 2, number]), (11, [3, 4, number])]
    assert [place for place, _ in refused] == [9, 10]
    assert "line" not in refused[0][1]


def test_arff_with_other_attributes_is_refused(tmp_path):
    with pytest.raises(BadInput, match="the 3 features alone; it has 2 attributes"):
        read(tmp_path, "@relation r\n@attribute a real\n@attribute b real\n@data\n1,2\n", kind="arff")


def test_images_do_not_come_as_lines(tmp_path):
    with pytest.raises(BadInput, match="lines hold vectors"):
        open_source("csv:-", SPEC._replace(kind="image", shape=(2, 2, 1)))
    with pytest.raises(BadInput, match="lines hold vectors"):
        open_sink("csv:-", [FRAME[0]._replace(shape=(2, 2, 1))])
    with pytest.raises(BadInput, match="no such file"):
        open_source(f"csv:{tmp_path}/nowhere.csv", SPEC)
    with pytest.raises(BadInput, match="a folder that exists"):
        open_sink(f"csv:{tmp_path}/no/where.csv", FRAME)


def stream(made, text, *options, sink="csv:-"):
    call = [
        sys.executable,
        "-m",
        "edgeveil.edge_runtime",
        "run",
        str(made.path),
        "--trust",
        str(made.trust),
        "--source",
        "csv:-",
    ]
    return subprocess.run(
        [*call, "--sink", sink, *options],
        input=text,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=Path(main.__file__).parents[1],
    )


def text_of(x):
    return "".join(",".join(f"{v:.9g}" for v in row) + "\n" for row in x)


def vectors(n, seed=0):
    return np.random.default_rng(seed).normal(size=(n, 6)).astype(np.float32)


def test_from_standard_input_to_standard_output(made):
    x = vectors(700)
    with Perturber.open(made.path, trust=made.trust) as perturber:
        wanted = perturber.pipeline.run(x)["frame"]
    done = stream(made, text_of(x), "--json")
    assert done.returncode == 0, done.stderr
    got = np.loadtxt(io.StringIO(done.stdout), delimiter=",", dtype=np.float32, ndmin=2)
    assert np.abs(got - wanted).max() < 1e-5  # a product of more rows may sum in another order
    assert got.shape == wanted.shape
    document = json.loads(done.stderr.splitlines()[-1])
    assert (document["frames_in"], document["frames_out"]) == (700, 700)


def test_a_bad_line_is_named_on_stderr_and_strict_stops_there(made):
    rows = text_of(vectors(9)).splitlines()
    rows[3] = "1,2,3"
    rows[6] = ",".join(["3e38"] * 6)  # a float32, and more than the cleaner can count with
    done = stream(made, "\n".join(rows))
    assert done.returncode == 0
    assert len(done.stdout.splitlines()) == 7
    assert "line 4 refused: 3 values, and 6 were expected\n" in done.stderr
    assert "line 7 refused: it was dropped: not-finite\n" in done.stderr
    assert "unreadable: 1" in done.stderr
    strict = stream(made, "\n".join(rows), "--strict")
    assert strict.returncode == 2
    assert "error: line 4: 3 values, and 6 were expected. Correct it, or leave out --strict." in strict.stderr


def test_a_reader_that_leaves_ends_it_quietly(made):
    call = f"yes 1,2,3,4,5,6 | {sys.executable} -m edgeveil.edge_runtime run {made.path} --trust {made.trust} "
    done = subprocess.run(
        ["bash", "-c", call + "--source csv:- --sink csv:- | head -2; exit ${PIPESTATUS[1]}"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=Path(main.__file__).parents[1],
    )
    assert done.returncode == 4
    assert "Traceback" not in done.stderr
    assert len(done.stdout.splitlines()) == 2


@pytest.mark.parametrize("sink", ["csv:-", "csv:/dev/full"])
def test_a_stream_that_is_full_is_one_sentence(made, sink):
    call = (
        f"yes 1,2,3,4,5,6 | head -3 | {sys.executable} -m edgeveil.edge_runtime run {made.path} --trust {made.trust} "
    )
    done = subprocess.run(
        ["bash", "-c", call + f"--source csv:- --sink {sink} > /dev/full; exit ${{PIPESTATUS[2]}}"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=Path(main.__file__).parents[1],
        env={name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"},
    )
    assert done.returncode == 2
    assert f"error: cannot write {sink[4:]}: no space left on device" in done.stderr
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr


@pytest.mark.parametrize("verb", ["edge_runtime verify {0.path} --trust {0.trust}", "trainer.cli.main recipe list"])
def test_what_a_verb_prints_into_a_stream_that_is_full_is_an_error(made, verb):
    done = subprocess.run(
        ["bash", "-c", f"{sys.executable} -m edgeveil.{verb.format(made)} > /dev/full"],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(main.__file__).parents[1],
        env={name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"},
    )
    assert done.returncode == 2
    assert "error: cannot write standard output: no space left on device" in done.stderr
    assert "Exception ignored" not in done.stderr


@pytest.mark.parametrize("kind", ["csv", "npz"])
def test_into_a_file_that_is_there_whole_or_not_at_all(made, tmp_path, kind):
    x = vectors(300)
    (tmp_path / "in.csv").write_text(text_of(x))
    place = tmp_path / f"out.{kind}"
    arguments = ["run", str(made.path), "--trust", str(made.trust), "--source", f"csv:{tmp_path}/in.csv"]
    assert main.main([*arguments, "--sink", f"{kind}:{place}"]) == 0
    if kind == "csv":
        assert len(place.read_text().splitlines()) == 300
    else:
        with np.load(place) as file:
            assert file["x"].shape == (300, 6)
            assert file["index"].tolist() == list(range(1, 301))
    assert main.main([*arguments, "--sink", f"csv:{tmp_path}/in.csv"]) == 2
    assert {path.name for path in tmp_path.iterdir()} == {"test.veil", "trust", "in.csv", place.name}


def test_nothing_is_left_of_a_stopped_run(made, tmp_path):
    (tmp_path / "in.csv").write_text(text_of(vectors(30)))
    for kind in ("csv", "npz"):
        with Perturber.open(made.path, trust=made.trust) as perturber:
            sink = open_sink(f"{kind}:{tmp_path}/out", perturber.manifest.outputs)

            def stop(*_):
                raise PrivacyStop("stopped by the test")

            with pytest.raises(PrivacyStop), open_source(f"csv:{tmp_path}/in.csv", perturber.manifest.input) as source:
                batch.run(source, perturber, sink, progress=stop)
    assert {path.name for path in tmp_path.iterdir()} == {"test.veil", "trust", "in.csv"}


def test_a_full_disk_leaves_no_half_of_a_file(made, tmp_path, monkeypatch):
    (tmp_path / "in.csv").write_text(text_of(vectors(30)))
    with Perturber.open(made.path, trust=made.trust) as perturber:
        sink = open_sink(f"csv:{tmp_path}/out.csv", perturber.manifest.outputs)

        class Full:
            def write(self, _):
                raise OSError(28, "No space left on device")

        monkeypatch.setattr(sink, "_file", Full())
        source = open_source(f"csv:{tmp_path}/in.csv", SPEC._replace(shape=(6,)))
        with source, pytest.raises(WriteFailed, match="free some space"):
            batch.run(source, perturber, sink)
    assert {path.name for path in tmp_path.iterdir()} == {"test.veil", "trust", "in.csv"}


def test_codes_leave_as_whole_numbers(tmp_path):
    made = bundles.make_bundle(tmp_path, example=bundles.cleaner_example(code=True))
    done = stream(made, text_of(vectors(5)))
    assert done.returncode == 0, done.stderr
    rows = [line.split(",") for line in done.stdout.splitlines()]
    assert len(rows) == 5
    assert all(len(row) == 2 and all(value.lstrip("-").isdigit() for value in row) for row in rows)


NAMED = SPEC._replace(features=("a", "b", "ü"))
ROWS = "1,2,3\n4,5,6\n7,8,9\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("\ufeff" + ROWS, [1, 2, 3]),
        ("\ufeffa,b,ü\n" + ROWS, [1, 2, 3]),
        ("sep=;\r\n" + ROWS.replace(",", ";"), [1, 2, 3]),
        ('"sep=\t"\n' + ROWS.replace(",", "\t"), [1, 2, 3]),
        (ROWS.replace(",", "|"), [1, 2, 3]),
        ("a;b;u\u0308\n" + ROWS.replace(",", ";"), [1, 2, 3]),
        ('"a","b","ü"\n"1","2","3"\n' + ROWS, [1, 2, 3]),
        ("ü,a,b\n" + ROWS, [2, 3, 1]),
        ("b;ü;a\n" + ROWS.replace(",", ";"), [3, 1, 2]),
    ],
)
def test_a_table_of_another_program_is_read_by_its_heads(tmp_path, monkeypatch, text, expected):
    for size in (1 << 18, 5):  # in one block, and in many, of which some are parsed at once
        monkeypatch.setattr(lines, "READ", size)
        found, refused = read(tmp_path, text, NAMED)
        assert refused == []
        assert (found[0][1], found[-1][1]) == (expected, [value + 6 for value in expected])


@pytest.mark.parametrize(
    ("head", "said"),
    [
        ("a,b,c", "the first line lacks ü: this bundle takes a, b, ü"),
        ("b,a,u", "lacks ü"),
        (",a,b,ü", "names 4 columns"),
        ("secret,a", "lacks b"),
    ],
)
def test_heads_of_other_columns_stop_the_run(tmp_path, head, said):
    with pytest.raises(BadInput, match=said) as refused:
        read(tmp_path, f"{head}\n{ROWS}", NAMED)
    assert "secret" not in str(refused.value)
    assert read(tmp_path, f"{head}\n{ROWS}")[0][-1][1] == [7, 8, 9]  # where the bundle names none, as ever


def test_decimal_commas_between_semicolons_are_no_numbers(tmp_path):
    found, refused = read(tmp_path, "1;2;3\n1,5;2;3\n1,2,3\n4;5;6\n")
    assert [row for _, row in found] == [[1, 2, 3], [4, 5, 6]]
    assert [number for number, _ in refused] == [2, 3]


def test_attributes_and_channels_are_taken_by_name_too(tmp_path):
    text = "\ufeff" + HEADER.replace("{C}", "real").replace("attribute c", "attribute ü") + "1,2,3\n"
    assert read(tmp_path, text, NAMED._replace(features=("ü", "a", "b")), kind="arff")[0][0][1] == [3, 1, 2]
    with pytest.raises(BadInput, match="lacks x"):
        read(tmp_path, text, NAMED._replace(features=("ü", "a", "x")), kind="arff")
    sampling = Sampling(10.0, ("ax", "ay"), ("g", "g"))
    (tmp_path / "s.csv").write_text("seconds;ay;ax\n0.5;1;2\n")
    with contextlib.closing(TimedLines(str(tmp_path / "s.csv"), sampling)) as opened:
        ((time, values),) = opened.read()
    assert (time, values.tolist()) == (0.5, [2, 1])
    (tmp_path / "s.csv").write_text("seconds,ay,az\n0.5,1,2\n")
    with (
        contextlib.closing(TimedLines(str(tmp_path / "s.csv"), sampling)) as opened,
        pytest.raises(BadInput, match="lacks ax"),
    ):
        opened.read()


def test_a_bundle_that_names_its_features_takes_them_by_name(tmp_path, capsys):
    manifest, members = bundles.cleaner_example()
    names = [f"n{at}" for at in range(6)]
    manifest["input"]["features"] = names
    made = bundles.make_bundle(tmp_path, example=(manifest, members))
    x = vectors(5)
    outputs = []
    for order in (list(range(6)), [3, 1, 0, 2, 5, 4]):
        (tmp_path / "in.csv").write_text(",".join(names[at] for at in order) + "\n" + text_of(x[:, order]))
        (tmp_path / "out.csv").unlink(missing_ok=True)
        call = ["run", str(made.path), "--trust", str(made.trust), "--source", f"csv:{tmp_path}/in.csv"]
        call += ["--sink", f"csv:{tmp_path}/out.csv"]
        assert main.main(call) == 0
        outputs.append((tmp_path / "out.csv").read_text())
    assert outputs[0] == outputs[1]
    (tmp_path / "in.csv").write_text("a,b,c,d,e,f\n" + text_of(x))
    (tmp_path / "out.csv").unlink()
    assert main.main(call) == 2
    assert "the first line lacks n0: this bundle takes n0, n1, n2, n3, n4, n5" in capsys.readouterr().err
    for wrong in (["n0"] * 6, names[:5], [*names[:5], "\x1b"]):
        manifest["input"]["features"] = wrong
        refused = bundles.make_bundle(tmp_path / str(len(set(wrong))), example=(manifest, members))
        with pytest.raises(BadInput, match="features"):
            Perturber.open(refused.path, trust=refused.trust)
