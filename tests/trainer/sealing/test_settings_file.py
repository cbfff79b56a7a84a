"""``edgeveil update settings``: what a board would refuse is not written, and each mistake gets one sentence."""

import json

import pytest

from edgeveil.edge_runtime.releases.settings import file_name
from edgeveil.edge_runtime.signing.keys import read_public_key
from edgeveil.trainer.sealing.keys import keygen
from tests.support import output


@pytest.fixture
def site(tmp_path, monkeypatch, capfd):
    """Keys of two boards and of a root, a password and settings; runs the command there."""
    monkeypatch.chdir(tmp_path)
    for name in ("root", "one", "two"):
        keygen(tmp_path / name)
    (tmp_path / "www").mkdir()
    (tmp_path / "pw").write_text("tr0ub4dor\n")
    write(tmp_path, {"sink": ["mqtts://broker/hall?password_file=@FILES@/broker.password"], "fps": 5})
    edgeveil = output.in_process(monkeypatch, capfd)

    def run(*more, files=("broker.password=pw",), boards=("one/signing.pub",)):
        words = [word for one in files for word in ("--file", one)]
        return edgeveil(
            "update", "settings", "hall.json", *boards, *words, "--key", "root/signing.key", "--out", "www", *more
        )

    return tmp_path, run


def write(folder, settings):
    (folder / "hall.json").write_text(json.dumps(settings))


def test_each_board_gets_a_file_of_its_own_whose_number_rises(site):
    folder, run = site
    names = {file_name(read_public_key(folder / f"{board}/signing.pub").key) for board in ("one", "two")}
    for number in (1, 2):
        code, out, _ = run("--json", boards=("one/signing.pub", "two/signing.pub"))
        assert (code, json.loads(out)["settings"]) == (0, {f"www/{name}": number for name in names})
    assert b"tr0ub4dor" not in b"".join(path.read_bytes() for path in (folder / "www").iterdir())


@pytest.mark.parametrize(
    ("settings", "files", "said"),
    [
        ({"sink": ["tcp://h:1"]}, ["pw"], "Expected --file NAME=FILE"),
        ({"sink": ["tcp://h:1"]}, ["../pw=pw"], "Expected a name of letters"),
        ({"sink": ["tcp://h:1"]}, ["pw=nothing"], "nothing cannot be read"),
        ({"sink": ["tcp://h:1"]}, ["pw=pw"], "the settings name none, and there come pw"),
        ({"sink": ["tcp://h:1"], "camera-aid": True}, [], "give it as a flag"),
        ({"fps": 5}, [], "--sink"),
        (["sink"], [], "Expected an object of settings"),
    ],
)
def test_a_mistake_gets_one_sentence_and_nothing_is_written(site, settings, files, said):
    folder, run = site
    write(folder, settings)
    code, _, err = run(files=files)
    assert (code, said in err) == (2, True), err
    assert not list((folder / "www").iterdir())


def test_the_file_of_another_key_is_not_followed(site):
    folder, run = site
    assert run()[0] == 0
    for path in (folder / "root").iterdir():
        path.unlink()
    keygen(folder / "root")
    code, _, err = run()
    assert (code, "another key" in err) == (2, True)
