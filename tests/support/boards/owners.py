"""The owner of a board: a trust folder and bundles with the real runtime in them; and a line that is written down."""

from edgeveil.devices.flashing import board
from edgeveil.devices.transports.base import Completed
from edgeveil.devices.zipapp import zipapp_bytes
from edgeveil.edge_runtime.signing.keys import public_key_line
from edgeveil.trainer.sealing.trust_file import TrustFolder
from tests.support import bundles

SECRET = "correct horse"  # noqa: S105 - opens nothing but keys made here


def trust(folder):
    """``folder/root``: the trust folder of an owner who trusts the key of the tests' bundles."""
    (folder / "test.pub").write_text(public_key_line(bundles.trusted()))
    return TrustFolder.init(folder / "root", [folder / "test.pub"], passphrase=SECRET).folder


def bundle(folder, name="one.veil", *, example=None, version=None):
    """A bundle that a board can try: with the real runtime in it, and that security version."""

    def change(manifest, members):
        manifest["security_version"] = manifest["security_version"] if version is None else version
        members["runtime/edgeveil-edge.pyz"] = zipapp_bytes()

    return bundles.make_bundle(folder, example=example, change=change, name=name)


def light(agent, *names):
    """The source of an agent; that of a board's facts looks for numpy, or these: each takes a second to load."""
    return agent.replace(b'("libedgetpu",) + INTERPRETERS, ', repr(names or ("numpy",)).encode() + b", ")


def few_interpreters(monkeypatch, *names):
    """Boards are asked for numpy alone, or for these; ``tests/devices/agents/test_gather_facts.py`` asks for all."""
    read_agent = board.read_agent
    monkeypatch.setattr(board, "read_agent", lambda name: light(read_agent(name), *names))


class Recorded:
    """A transport that writes down what it is asked to run. ``codes``: what a command with these words ends with."""

    name, trusted, python = "board", True, "python3"

    def __init__(self, uid=b"0", out=b"/home/pi/in", **codes):
        self.ran, self.uid, self.out, self.codes = [], uid, out, codes

    def run(self, command, **_):
        text = " ".join(command)
        self.ran.append(text)
        code = next((code for words, code in self.codes.items() if words in text), 0)
        return Completed(code, self.uid if text == "id -u" else self.out, b"said no")

    def put(self, *_):
        pass

    def close(self):
        pass


class Watched(board.Board):
    """A board of known facts."""

    def __init__(self, line, known):
        self.said, self.known = [], known
        super().__init__(line, say=self.said.append)

    def facts(self, accelerator=None, needs=()):
        return self.known
