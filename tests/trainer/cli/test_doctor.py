"""``edgeveil doctor`` says what is there, what is missing and for what, and which boards answer."""

import json

from edgeveil.edge_runtime.errors import DeviceFailed
from edgeveil.trainer.cli import doctor


def test_what_is_not_installed_is_named_with_its_use_and_its_cure(edgeveil, monkeypatch):
    there = doctor.importlib.util.find_spec
    monkeypatch.setattr(doctor.importlib.util, "find_spec", lambda name: None if name == "paramiko" else there(name))
    code, out, _ = edgeveil("doctor")
    assert code == 0
    assert "boards over SSH              missing: paramiko (pip install 'edgeveil[ssh]')" in out
    assert "train and audit              there" in out
    parts = {one["for"]: one for one in json.loads(edgeveil("doctor", "--json")[1])["parts"]}
    assert parts["boards over SSH"]["missing"] == ["paramiko"]


def test_every_module_that_is_asked_for_has_an_extra_or_a_name_to_install():
    assert all(isinstance(modules, tuple) and how.startswith("pip install") for modules, how in doctor.NEEDS.values())


def test_data_sets_are_looked_for_where_the_loaders_read_them(edgeveil, monkeypatch, tmp_path):
    monkeypatch.setenv("EDGEVEIL_DATA", str(tmp_path))
    for name, paths in doctor.data_sets().items():
        assert doctor.missing(paths) == list(paths), name
    (tmp_path / "mulan_wq").mkdir()
    (tmp_path / "mulan_wq" / "wq.arff.gz").write_bytes(b"")
    _, out, _ = edgeveil("doctor")
    assert "data set wq                  there" in out
    assert "data set mnist               missing below EDGEVEIL_DATA: mnist/train-images-idx3-ubyte.gz" in out
    monkeypatch.delenv("EDGEVEIL_DATA")
    assert "data set faces               EDGEVEIL_DATA is not set: extended_yale_b/" in edgeveil("doctor")[1]


def test_boards_are_asked_and_silence_is_exit_code_four(edgeveil, monkeypatch):
    class Board:
        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

        def facts_document(self):
            return {"board": "Raspberry Pi 4", "architecture": "aarch64", "python": "3.11.2"}

    def opened(_, target, say):
        if "silent" in target:
            raise DeviceFailed("no answer within 10 s")
        return Board()

    monkeypatch.setattr("edgeveil.devices.flashing.connection.Connection.open", opened)
    code, out, _ = edgeveil("doctor", "--on", "ssh://pi@hall")
    assert code == 0
    assert "Raspberry Pi 4, aarch64, 3.11.2" in out
    code, out, err = edgeveil("doctor", "--on", "ssh://pi@hall", "--on", "ssh://pi@silent")
    assert code == 4
    assert "1 of 2 boards do not answer: no answer within 10 s" in err
    assert "Raspberry Pi 4" in out
