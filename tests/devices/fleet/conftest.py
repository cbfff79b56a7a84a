"""A fleet of three real sshds."""

import json
import sys

import pytest

from edgeveil.devices.zipapp import zipapp_bytes
from edgeveil.edge_runtime.signing.keys import public_key_line
from edgeveil.trainer.cli.main import main
from edgeveil.trainer.sealing.trust_file import TrustFolder
from tests.support import bundles
from tests.support.boards import sshd


@pytest.fixture
def hall(tmp_path):
    """Three boards, each with a home and an sshd of its own, and a bundle; ``hall.toml`` names them."""
    runtime = zipapp_bytes()

    def change(_manifest, members):
        members["runtime/edgeveil-edge.pyz"] = runtime

    made = bundles.make_bundle(tmp_path, change=change)
    second = bundles.numpy_example()
    second[0]["name"] = "second"
    bundles.make_bundle(tmp_path, example=second, change=change, name="second.veil")
    (tmp_path / "test.pub").write_text(public_key_line(bundles.trusted()))
    TrustFolder.init(tmp_path / "root", [tmp_path / "test.pub"], passphrase="correct horse")  # noqa: S106
    text = '[all]\nprofile = "workstation"\ntrust = "root"\nservice = false\nframes = 2\n'
    servers = []
    for name in ("one", "two", "three"):
        folder = tmp_path / name
        (folder / "opt").mkdir(parents=True)
        servers.append(sshd.running(folder, home=folder / "home"))
        up = servers[-1].__enter__()
        text += f'[[board]]\nname = "{name}"\ntarget = "{up.target}"\nroot = "{folder / "opt"}"\n'
        text += f'identity = "{name}/user"\nknown_hosts = "{name}/known_hosts"\n'
    (tmp_path / "hall.toml").write_text(text)
    yield made.path
    for server in servers:
        server.__exit__(None, None, None)


@pytest.fixture
def edgeveil(tmp_path, capfd, monkeypatch):
    """Runs ``edgeveil fleet hall.toml``; returns its exit code, the boards' states by ``--json``, and what it said."""
    said = []

    def run(*words):
        monkeypatch.setattr(sys, "argv", ["edgeveil", "fleet", str(tmp_path / "hall.toml"), *map(str, words), "--json"])
        with pytest.raises(SystemExit) as ended:
            main()
        out = capfd.readouterr()
        said.append(f"edgeveil fleet {words[0]}: {ended.value.code}\n{out.out}{out.err}")
        found = {row["board"]: row["state"] for row in json.loads(out.out)["boards"]} if out.out else {}
        return ended.value.code, found, out

    yield run
    print(*said, sep="\n")  # shown where the test failed
