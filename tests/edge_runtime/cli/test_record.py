"""edgeveil-edge record and edgeveil data open: a site's own samples for its owner, and no plain frame on a disk."""

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

import cv2
import numpy as np
import pytest

from edgeveil.edge_runtime.cli import main, record
from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.manifest.manifest import expected, parse
from edgeveil.edge_runtime.outside.recording import parse_labels
from edgeveil.edge_runtime.pipeline.crops import Capture
from edgeveil.edge_runtime.sources.images import ImagesSource
from edgeveil.trainer.datasets.columns import read_table
from edgeveil.trainer.datasets.loaders import npz
from edgeveil.trainer.datasets.loaders.captured import captured
from edgeveil.trainer.recipe import training_sections
from edgeveil.trainer.sealing.keys import keygen
from tests.support import bundles, programs
from tests.support.checkout import ROOT
from tests.support.once import nightly_but
from tests.support.output import in_process

FRAMES, FPS = 24, 30.0
ROWS = "0,sit,ann,day\n0.4,stand,ben,day\n0.6,,ben,day\n0.7,sit,ben,day\n"
SECRET = np.random.default_rng(5).integers(0, 256, 64).astype(np.uint8)  # a row that every picture has
CAPTURE = {"measure": "value", "low": None, "high": None, "crop": None, "slots": 1, "fit": "stretch", "tick_hz": 1000.0}


def site(folder, *, development=True):
    """A bundle, its trust, an owner's key, pictures with the secret row, and labels in a CSV."""

    def change(manifest, _members):
        manifest["capture"].update(CAPTURE)
        manifest["capture"]["frame"].update(shape=manifest["input"]["shape"][:2], dtype="uint8", unit_mm=None)

    made = bundles.make_bundle(folder, development=development, example=bundles.captured_example(), change=change)
    (folder / "pictures").mkdir()
    for number in range(FRAMES):
        picture = np.full((48, 64), number, np.uint8)
        picture[10:20] = SECRET
        assert cv2.imwrite(str(folder / f"pictures/{number:03}.bmp"), picture)
    keygen(folder / "owner")
    (folder / "labels.csv").write_text(
        "seconds,y,z,light\n0,sit,ann,day\n0.4,stand,ben,day\n0.6,,ben,day\n0.7,sit,ben,day\n"
    )
    return made


def words(folder, *more):
    labels = () if more else ("--labels", folder / "labels.csv")
    where = ("--trust", folder / "trust", "--source", f"images:{folder}/pictures")
    fixed = (
        "record",
        folder / "test.veil",
        *where,
        "--key",
        folder / "owner/signing.pub",
        "--out",
        folder / "hall.age",
    )
    return [str(word) for word in (*fixed, *labels, *more)]


@pytest.fixture
def place():
    """A folder that every user may read: the process that sees frames is not root."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@pytest.fixture
def opened(place, monkeypatch, capsys):
    """Open the recording: exit code, stdout, stderr."""
    run = in_process(monkeypatch, capsys)
    return lambda key="owner", *more: run(
        "data", "open", place / "hall.age", "--key", place / key / "signing.key", *more
    )


BREAK = "from edgeveil.edge_runtime.signing.sealed import Sealer\nSealer.add = lambda self, data: self._write(data)\n"
START = "import sys\n{}from edgeveil.edge_runtime.cli import main\nsys.exit(main.main(sys.argv[1:]))"


def started(folder, *more, before=(), first=""):
    line = [*before, sys.executable, "-c", START.format(first), *words(folder, *more)]
    pipe = subprocess.PIPE
    return subprocess.Popen(line, cwd=ROOT, stdout=pipe, stderr=pipe, text=True, start_new_session=True)


def test_what_a_board_recorded_is_what_its_pipeline_would_have_got_with_the_operators_labels(place, opened):
    made = site(place)
    process = started(place)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert "RECORDING RAW FRAMES" in err
    assert "Everyone in view must know" in err
    assert f"{FRAMES} frames in" in out
    assert oct((place / "hall.age").stat().st_mode & 0o777) == "0o600"
    code, said, err = opened()
    assert code == 0, err
    assert "stand" in said
    assert "without a label" in said
    with np.load(place / "hall.npz") as file:
        arrays = dict(file)
    manifest = parse(made.manifest)
    runner = Capture(manifest)
    with ImagesSource(str(place / "pictures"), expected(manifest.input, manifest.capture)) as source:
        all_ = np.stack([runner.frames(source.next())[0][1]._data for _ in range(FRAMES)])
    numbers = arrays["x"][:, -1, -1, 0].astype(int)  # each picture is filled with its number
    assert np.array_equal(arrays["x"], all_[numbers])
    seconds = arrays["captured_s"]
    assert np.abs(seconds - numbers / FPS).max() < 0.3
    assert not ((seconds >= 0.6) & (seconds < 0.7)).any()
    assert (arrays["y"] == np.where((seconds >= 0.4) & (seconds < 0.6), "stand", "sit")).all()
    assert (arrays["z"] == np.where(seconds >= 0.4, "ben", "ann")).all()
    assert set(arrays["label_light"]) == {"day"}
    assert [len(set(arrays["session"][arrays["y"] == one])) for one in ("stand", "sit")] == [1, 2]
    code, said, err = opened("owner", "--out", place / "hall.mcap")
    assert code == 0, err
    assert f"edgeveil recipe new {place}/hall.mcap --target /y --sensitive /z --session /session" in said
    assert oct((place / "hall.mcap").stat().st_mode & 0o777) == "0o600"
    table = read_table("mcap", place / "hall.mcap")
    assert np.array_equal(table.arrays["/x"].stacked(), arrays["x"])
    for name in ("y", "z", "session", "label_light"):
        assert table.columns[f"/{name}"].classes.astype(str).tolist() == arrays[name].astype(str).tolist()
    assert np.allclose(table.columns["time"].values, seconds - seconds[0], atol=1e-6)
    readings = npz.load(place / "hall.npz")
    frame = {"frame": {"shape": [8, 8], "dtype": "uint8"}}
    section = training_sections.Capture.model_validate({**{k: v for k, v in CAPTURE.items() if v is not None}, **frame})
    assert np.array_equal(captured(readings, section).x, readings.x)
    wider = section.model_copy(update={"frame": training_sections.Frame(shape=[48, 64], dtype="uint8"), "size": [8, 8]})
    assert np.array_equal(captured(readings, wider).x, readings.x)  # samples already, and no frames of that sensor


PATTERNS = (SECRET.tobytes(), SECRET[4::8].tobytes())  # of a picture, and of a sample


def seen(folder):
    """Where a plain sample is among the files of a folder but its pictures, and in what strace saw written."""
    found = []
    for path in [one for one in folder.rglob("*") if one.is_file() and one.parent.name != "pictures"]:
        data = path.read_bytes()
        if path.name == "trace":
            writes = [line for line in data.decode().splitlines() if re.search(r"\b(p?writev?(64)?|send\w*)\(", line)]
            data = b"".join(bytes.fromhex("".join(re.findall(r"\\x([0-9a-f]{2})", line))) + b"|" for line in writes)
        found += [path.name for pattern in PATTERNS if pattern in data]
    return found


@pytest.mark.programs
@pytest.mark.parametrize("first", ["", BREAK])
def test_no_plain_sample_reaches_a_disk_a_pipe_or_a_log(place, first):
    site(place)
    calls = "trace=write,pwrite64,writev,pwritev,pwritev2,sendto,sendmsg,sendmmsg,openat,open,creat"
    strace = [programs.need("strace"), "-f", "-qq", "-xx", "-s", "1000000", "-e", calls, "-o", str(place / "trace")]
    process = started(place, before=strace, first=first)
    out, err = process.communicate(timeout=100)
    (place / "said").write_text(out + err)
    if first:  # the same search finds it where sealing is taken away
        assert {"trace"} <= set(seen(place))
        return
    assert process.returncode == 0, err
    assert seen(place) == []
    trace = (place / "trace").read_text()
    names = re.findall(
        r'open(?:at)?\((?:AT_FDCWD, )?"((?:\\x[0-9a-f]{2})*)", [A-Z_|]*O_(?:WRONLY|RDWR)[^)]*\) += \d', trace
    )
    written = {bytes.fromhex(name.replace("\\x", "")).decode() for name in names}
    assert {Path(one).name[14:] for one in written if not one.startswith(("/dev/", "/proc/"))} == {"hall.age"}


def got(address):
    with urllib.request.urlopen(address) as answer:  # noqa: S310 - of this machine
        return answer.read().decode()


def test_buttons_label_from_when_they_are_pressed_and_no_other_page_can_press_them(place, opened):
    site(place)
    process = started(place, "--labels", "page:0?y=sit,stand&z=ann")
    address = ""
    for line in process.stderr:
        if "http://" in line:
            address = re.search(r"http://\S+", line)[0]
            break
    page = got(address)
    links = dict(zip(re.findall(r"\[ (\w+) \]", page), re.findall(r'href="/([^"]+)"', page), strict=True))
    assert list(links) == ["sit", "stand", "none", "ann"]
    for wrong in ("label?name=y&value=sit", links["sit"].replace("sit", "fly").replace("&amp;", "&")):
        with pytest.raises(urllib.error.HTTPError):
            got(address + wrong)
    for one in ("ann", "stand"):
        page = got(address + links[one].replace("&amp;", "&"))
    assert "y: stand" in page
    _, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert opened()[0] == 0
    with np.load(place / "hall.npz") as file:
        assert set(file["y"]) == {"stand"}
        assert set(file["z"]) == {"ann"}


@pytest.mark.parametrize("number", nightly_but((signal.SIGINT, signal.SIGTERM), signal.SIGTERM))
def test_a_signal_ends_a_recording_that_is_whole(place, opened, number):
    site(place)
    listed = (f"{number / 2} {number:03}.bmp\n" for number in range(FRAMES))
    (place / "pictures/rgb.txt").write_text("".join(listed))
    process = started(place)
    while "RECORDING" not in process.stderr.readline():
        pass
    time.sleep(2)  # some frames, not all
    os.killpg(process.pid, number)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert 1 <= int(out.split()[0]) < FRAMES
    assert opened()[0] == 0


def test_a_recording_is_opened_by_its_key_alone_and_whole_or_not_at_all(place, opened):
    site(place)
    started(place).communicate(timeout=60)
    keygen(place / "other")
    code, _, err = opened("other")
    assert (code, "sealed to another key" in err) == (2, True)
    data = (place / "hall.age").read_bytes()
    for wrong, said in (
        (data[:-1], "cut short"),
        (data[:-20] + bytes([data[-20] ^ 1]) + data[-19:], "damaged"),
        (data[:250], "cut short"),
        (b"PK" + data, "no recording"),
        (b"", "no recording"),
    ):
        (place / "hall.age").write_bytes(wrong)
        code, _, err = opened()
        assert (code, said in err) == (2, True), err
        assert not (place / "hall.npz").exists()
        assert not [one for one in place.iterdir() if one.name.startswith(".")]


def edge(capsys, *words):
    code = main.main([str(word) for word in words])
    return code, capsys.readouterr().err


def test_it_is_refused_where_keys_for_production_are_trusted(tmp_path, capsys, monkeypatch):
    site(tmp_path / "a", development=False)
    code, err = edge(capsys, *words(tmp_path / "a"))
    assert (code, "a trust folder for production (test)" in err) == (2, True), err
    site(tmp_path / "b")
    for name in ("root.pub", "trust.json", "x.pub"):  # one that cannot be read is for production
        trust = tmp_path / name / "trust"
        trust.mkdir(parents=True)
        (trust / name).write_text("x")
        monkeypatch.setattr(record, "installed", lambda trust=trust: [str(trust)])
        code, err = edge(capsys, *words(tmp_path / "b"))
        assert (code, f"record is refused here: {trust}" in err) == (2, True), err
    assert not (tmp_path / "b/hall.age").exists()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("images:", "npz:"), "npz"),
        (("images:", "rtsp://h/"), "no camera on a network"),
        (("signing.pub", "signing.key"), "no public key"),
        (("labels.csv", "labels.txt"), "expected --labels FILE.csv with a column seconds, or page:8080"),
        (("labels.csv", "none.csv"), "cannot be read"),
    ],
)
def test_what_cannot_be_recorded_is_said_before_anything_is_kept(tmp_path, capsys, change, said):
    site(tmp_path)
    code, err = edge(capsys, *(word.replace(*change) for word in words(tmp_path)))
    assert (code, said in err) == (2, True), err
    assert not (tmp_path / "hall.age").exists()


def test_labels_of_a_csv_are_checked_line_by_line(tmp_path):
    file = tmp_path / "l.csv"
    for text, said in (
        ("y,z\n1,2\n", "expected a column seconds"),
        ("seconds,y\nx,a\n", "line 2"),
        ("", "seconds"),
        ("seconds,Y\n1,a\n", "a-z"),
    ):
        file.write_text(text)
        with pytest.raises(BadInput, match=said):
            parse_labels(str(file))
    file.write_text("seconds,y\n0.5, sit \n1,\n")
    assert parse_labels(str(file)).timed == [("y", "sit", 0.5), ("y", None, 1.0)]
    for wrong in ("page:0", "page:99999?y=a", "page:1?Y=a"):
        with pytest.raises(BadInput, match="expected --labels"):
            parse_labels(wrong)
