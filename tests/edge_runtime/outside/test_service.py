"""The service: two processes, faults of a camera, and every frame accounted for."""

import json
import re
import signal

import numpy as np
import pytest

from tests.support import bundles, live_fakes
from tests.support.broker_services import arguments, finish, start


@pytest.fixture(scope="module")
def wide(tmp_path_factory):
    return bundles.make_bundle(tmp_path_factory.mktemp("wide"), example=live_fakes.wide_example())


@pytest.mark.parametrize(
    ("faults", "word", "reason"),
    [
        pytest.param("", None, None, marks=pytest.mark.nightly),  # by day with faults
        pytest.param("disconnect=20&stall=40&error=60&drop=30", "fault", "unreadable", marks=pytest.mark.slow),
        pytest.param("crash=30", "inside-ended", None, marks=pytest.mark.nightly),  # test_emission_is_constant.py
        ("hang=30", "inside-ended", None),
    ],
)
def test_every_frame_is_accounted_for_whatever_breaks(wide, tmp_path, faults, word, reason):
    words = arguments(wide, "fake:100?fps=60&" + faults, f"npz:{tmp_path}/out.npz")
    code, document, events = finish(start(words, tmp_path))
    assert code == 0
    assert document["frames_in"] == document["frames_out"] + sum(document["dropped"].values())
    assert document["frames_out"] >= 20
    assert document["dropped"].get("inside-ended", 0) <= 3  # in hand, waiting, and on its way
    if word:
        assert word in {event["event"] for event in events}
    if reason:
        assert document["dropped"][reason] == 1
    with np.load(tmp_path / "out.npz") as out:
        assert out["index"].tolist() == list(range(len(out["index"])))  # a tick each, none left out
    (sent,) = [event["message"] for event in events if event["event"] == "traffic"]
    assert re.match(rf"npz:{tmp_path}/out\.npz: [\d,]+ bytes a record, 25 a second: ", sent), sent
    assert live_fakes.SECRET.hex() not in json.dumps(events)


@pytest.mark.parametrize(
    ("source", "flag", "sensor", "said"),
    [
        ("simulate:depth", None, "camera", "gives depth pictures, and this bundle is for pictures of a camera"),
        ("simulate:depth", None, None, f"this bundle takes frames of {live_fakes.WIDE}: it could use none"),
        ("fake:0", "--realtime", None, "fake: is not one"),
    ],
)
def test_a_source_that_does_not_fit_is_refused_before_anything_starts(tmp_path, source, flag, sensor, said):
    def of_a_sensor(manifest, _members):
        manifest["input"]["sensor"] = sensor

    made = bundles.make_bundle(
        tmp_path, example=live_fakes.wide_example(), change=None if sensor is None else of_a_sensor
    )
    words = arguments(made, source, f"npz:{tmp_path}/out.npz") + ([flag] if flag else [])
    process = start(words, tmp_path)
    out, err = process.communicate(timeout=20)
    assert (process.returncode, out) == (2, "")
    assert said in err
    assert not any(f'"event": "{event}"' in err for event in ("start", "ready", "source"))


def test_sigterm_drains_and_what_left_is_kept(wide, tmp_path):
    process = start(arguments(wide, "fake:0", f"npz:{tmp_path}/out.npz"), tmp_path)
    for line in process.stderr:
        if '"event": "source"' in line:
            break
    process.send_signal(signal.SIGTERM)
    code, document, _ = finish(process, timeout_s=5)
    assert code == 0
    assert document["stopped"] == "interrupted"
    assert document["frames_in"] == document["frames_out"] + sum(document["dropped"].values())
    assert (tmp_path / "out.npz").exists()


def test_a_sink_that_nobody_listens_to_is_said_and_ends_with_four(wide, tmp_path):
    words = arguments(wide, "fake:20?fps=50", "tcp://127.0.0.1:1", "preview:0")
    words[words.index("--log") + 1] = "memory"
    process = start(words, tmp_path)
    out, err = process.communicate(timeout=40)
    document = json.loads(out)
    lost, shown = document["sinks"]["tcp://127.0.0.1:1"], document["sinks"]["preview:0"]
    assert process.returncode == 4, err
    assert lost["delivered"] == lost["waiting"] == 0 < lost["lost"]
    assert shown["lost"] == 0 < shown["delivered"]
    assert f"nothing arrived at tcp://127.0.0.1:1, {lost['lost']} records are lost" in err
    assert "Frames wait, and the connection is tried again" in err
    assert "to see what is sent and read its privacy card; nothing can be changed there" in err


def test_records_that_wait_on_the_disk_are_no_failure(wide, tmp_path):
    words = arguments(wide, "fake:20?fps=50", f"tcp://127.0.0.1:1?spool={tmp_path}/spool")
    code, document, _ = finish(start(words, tmp_path))
    assert code == 0
    assert document["sinks"]["tcp://127.0.0.1:1"]["waiting"] > 0
