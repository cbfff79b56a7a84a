"""Names that are not UTF-8: none reaches OpenCV, which ends the process at one with a segmentation fault."""

import ast
import os
import subprocess
import sys

import numpy as np
import pytest

from edgeveil.edge_runtime.sources.video import VideoSource
from tests.support import import_graph, tiny_models
from tests.support.checkout import PACKAGES, ROOT

cv2 = pytest.importorskip("cv2")

NAME = os.fsdecode(b"caf\xe9")
SENTENCE = b"OpenCV opens films by names in UTF-8 alone; 'caf\\udce9.avi' is none: rename it"
READS, OPENS = {"imread", "imwrite", "imreadmulti", "imcount", "FileStorage"}, {"VideoCapture", "VideoWriter"}
# Where OpenCV opens by name, each behind film_name.
BY_NAME = {
    "edge_runtime/sinks/video.py",
    "edge_runtime/sources/video.py",
    "edge_runtime/sources/camera.py",
    "edge_runtime/sources/rtsp.py",  # an address, which is ASCII
    "trainer/audit/pair_files.py",
}


def run(folder, *words):
    """A command in a process of its own, on a terminal that takes UTF-8 alone; its code, stdout and stderr."""
    environment = {**os.environ, "PYTHONPATH": str(PACKAGES), "PYTHONIOENCODING": "utf-8:strict"}
    done = subprocess.run(
        [sys.executable, *words], cwd=folder, env=environment, capture_output=True, timeout=300, check=False
    )
    assert b"Traceback" not in done.stderr
    return done.returncode, done.stdout, done.stderr


def perturbed(folder, made, source, sink):
    words = ("-m", "edgeveil.edge_runtime", "run", str(made.path), "--trust", str(made.trust))
    return run(folder, *words, "--source", source, "--sink", sink)


def edgeveil(folder, *words):
    return run(folder, "-c", "from edgeveil.trainer.cli.main import main; main()", *words)


def picture(path, value=0, size=(8, 8)):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(cv2.imencode(".png", np.full(size, value, np.uint8))[1].tobytes())


@pytest.mark.parametrize("name", ["10:30:00.avi", "concat:a|b.avi", "100%20.avi", "%03d.avi", "-o.avi", "[a]*?.avi"])
def test_a_film_is_opened_by_its_name_and_not_by_what_ffmpeg_takes_it_for(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    film = cv2.VideoWriter("film.avi", cv2.VideoWriter_fourcc(*"MJPG"), 5, (32, 24))
    film.write(np.zeros((24, 32, 3), np.uint8))
    film.release()
    (tmp_path / "film.avi").rename(name)
    with VideoSource(name, {"kind": "image", "shape": [24, 32, 3], "dtype": "uint8"}) as source:
        assert source.next().index == 0


@pytest.fixture
def pictures(tmp_path):
    """24 pictures with a CSV of their labels, and one more that no line of UTF-8 can name."""
    rows = [f"{'ab'[k % 2]}/{k}.{'png' if k % 3 else 'PNG'},{k // 2 % 2}" for k in range(24)]
    for k, row in enumerate(rows):
        picture(tmp_path / row.partition(",")[0], k)
    picture(tmp_path / "a" / f"{NAME}.png")
    (tmp_path / "labels.csv").write_text("\n".join(["file,who", *rows, ""]))
    return tmp_path


def test_data_look(pictures):
    code, out, err = edgeveil(pictures.parent, "data", "inspect", f"images:{pictures.name}", "--sensitive", "who")
    assert code == 2
    assert b"25 pictures" in out
    assert b'1 of 25 pictures have no row, such as "a/caf\\udce9.png"' in err
    assert b"a/caf\\udce9.png" in out


def test_half_a_picture_is_one_sentence_and_a_hidden_one_none(pictures):
    (pictures / "a" / f"{NAME}.png").unlink()
    (pictures / "a" / "._2.png").write_bytes(b"of another system")
    (pictures / "a" / "2.png").write_bytes((pictures / "a" / "2.png").read_bytes()[:40])
    code, out, err = edgeveil(pictures.parent, "data", "inspect", f"images:{pictures.name}", "--sensitive", "who")
    assert code == 2
    assert b"24 pictures" in out
    assert b"a/2.png cannot be read as a picture: it is damaged, too large, or of another kind." in err


def test_pictures_and_films_before_and_after(tmp_path):
    for folder in ("before", "after"):
        for k in range(40):
            picture(tmp_path / folder / f"y{k % 2}" / f"z{k // 2 % 2}" / f"{NAME}{k}.png", k)
    picture(tmp_path / "after" / "y0" / "z0" / ".hidden.png")
    words = ("pairs", "before", "after", "--out", "report")
    code, _, err = edgeveil(tmp_path, "audit", *words)
    assert (code, b"one alone" in err) == (0, False), err
    for name in (f"{NAME}.avi", "other.avi"):
        (tmp_path / name).write_bytes(b"a film")
    (tmp_path / "labels.csv").write_text("frame,y,z\n0,0,0\n")
    code, _, err = edgeveil(tmp_path, "audit", "pairs", f"{NAME}.avi", "other.avi", "--labels", "labels.csv")
    assert (code, SENTENCE in err) == (2, True), err


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return tiny_models.write(tmp_path_factory.mktemp("bundle"))


def test_a_source_of_pictures(made, tmp_path):
    picture(tmp_path / "in" / f"{NAME}.png", size=tiny_models.SHAPE)
    (tmp_path / "in" / ".hidden.png").write_bytes(b"none")
    code, out, err = perturbed(tmp_path, made, "images:in", f"npz:{NAME}.npz")
    assert code == 0, err
    assert b"1 frame in" in out
    assert b"npz:caf\\udce9.npz: 1 record" in out


@pytest.mark.parametrize(("source", "sink"), [("images:in", f"video:{NAME}.avi"), (f"video:{NAME}.avi", "npz:o.npz")])
def test_films(made, tmp_path, source, sink):
    picture(tmp_path / "in" / "0.png", size=tiny_models.SHAPE)
    if source.startswith("video"):
        (tmp_path / f"{NAME}.avi").write_bytes(b"a film")
    before = sorted(tmp_path.iterdir())
    code, _, err = perturbed(tmp_path, made, source, sink)
    assert (code, SENTENCE in err) == (2, True), err
    assert sorted(tmp_path.iterdir()) == before


def test_opencv_gets_no_other_name():
    reads, opens = set(), set()
    for root in import_graph.ROOTS:
        for path in (ROOT / root).rglob("*.py"):
            text = path.read_text()
            called = {
                node.func.attr
                for node in (ast.walk(ast.parse(text)) if any(word in text for word in READS | OPENS) else ())
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
            }
            name = path.relative_to(ROOT).as_posix()
            reads |= {name} if called & READS else set()
            opens |= {name} if called & OPENS else set()
    assert (reads, opens) == (set(), BY_NAME)
