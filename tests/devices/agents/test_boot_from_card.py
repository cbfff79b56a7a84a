"""What a board does at its first boot with what it finds: a camera that is not plugged in yet ends nothing."""

from edgeveil.devices.agents.boot_from_card import _trial


def test_a_release_is_tried_without_a_camera_that_is_not_there_yet(tmp_path, capsys):
    there, rest = f"camera:{tmp_path}", ["--frames", "30"]
    assert _trial([*rest, "--source", there, "--device", "edgetpu"]) == [
        *rest,
        "--source",
        there,
        "--device",
        "edgetpu",
    ]
    assert capsys.readouterr().out == ""
    for absent in ("camera:/dev/none", "camera:9999"):
        assert _trial([*rest, "--source", absent, "--device", "edgetpu"]) == [*rest, "--device", "edgetpu"]
        assert "tried on synthetic frames" in capsys.readouterr().out
    for other in ("kinect:", "gst:videotestsrc"):
        assert _trial([*rest, "--source", other]) == [*rest, "--source", other], "its library finds it, or says why not"
    assert _trial(rest) == rest
