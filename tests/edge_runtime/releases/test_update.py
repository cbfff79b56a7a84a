"""edgeveil.edge_runtime.releases.update against a real server on loopback that hangs up where it likes."""

import contextlib
import functools
import http.server
import random
import re
import shutil
import threading
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from edgeveil.edge_runtime.bundle.trust import Trust
from edgeveil.edge_runtime.cli.main import main
from edgeveil.edge_runtime.errors import BadInput, BundleRefused, DeviceFailed
from edgeveil.edge_runtime.releases import update
from edgeveil.edge_runtime.releases.store import Releases
from edgeveil.edge_runtime.signing import ed25519
from edgeveil.edge_runtime.signing.keys import public_key_line
from edgeveil.trainer.cli.main import app
from edgeveil.trainer.sealing.update_index import write_index
from tests.support import bundles, seeds


@pytest.fixture(autouse=True, scope="module")
def remembered():
    """A signature that was verified once is not verified a hundred times: the verifier is slow and always the same."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ed25519, "verify", functools.lru_cache(None)(ed25519.verify))
        yield


class Server(http.server.BaseHTTPRequestHandler):
    """Serves ``folder``; hangs up after ``cuts.pop()`` bytes of a bundle while there are any."""

    folder = None
    cuts: list = []  # noqa: RUF012 - made anew for each test
    asked: list = []  # noqa: RUF012
    knows_ranges = True

    def do_GET(self):
        path = self.folder / self.path.lstrip("/")
        if not path.is_file():
            self.send_error(404)
            return
        data, wanted = path.read_bytes(), self.headers.get("Range")
        self.asked.append((path.name, wanted))
        begin = 0
        if wanted and self.knows_ranges:
            begin = int(re.fullmatch(r"bytes=(\d+)-", wanted).group(1))
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {begin}-{len(data) - 1}/{len(data)}")
        else:
            self.send_response(200)
        self.send_header("Content-Length", str(len(data) - begin))
        self.end_headers()
        whole = data[begin:]
        if self.cuts and path.suffix == ".veil":
            whole = whole[: self.cuts.pop()]
        self.wfile.write(whole)

    def log_message(self, *_):
        pass


def passes(_folder, _bundle):
    """A trial that all pass."""


@pytest.fixture
def key(tmp_path):
    """signing.key of the key that the tests' bundles are signed with."""
    folder = tmp_path / "keys"
    folder.mkdir()
    pem = bundles.KEY.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (folder / "signing.key").write_bytes(pem)
    (folder / "signing.key").chmod(0o600)
    (folder / "signing.pub").write_text(public_key_line(bundles.trusted()))
    return folder / "signing.key"


def bundle(folder, version):
    def change(manifest, members):
        manifest["security_version"] = version
        # Large enough to be cut in many places.
        members["runtime/edgeveil-edge.pyz"] = random.Random(version).randbytes(150_000)  # noqa: S311

    return bundles.make_bundle(folder, change=change, name=f"v{version}.veil").path


@pytest.fixture
def www(tmp_path, key):
    """A server's folder with two bundles and an index of the second; and what serves it."""
    folder = tmp_path / "www"
    folder.mkdir()
    first, second = bundle(folder, 1), bundle(folder, 2)
    write_index([second, first], key, folder / "index.json", name="hall")
    handler = type("Handler", (Server,), {"folder": folder, "cuts": [], "asked": []})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    yield folder, handler, f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


class Device:
    """A board's folder; ``pull`` updates it as ``edgeveil-edge update`` does."""

    def __init__(self, root):
        root.mkdir()
        self.root = root
        self.releases = Releases(str(root), lambda floor: Trust([bundles.trusted()], floor=floor))

    def pull(self, place):
        state = self.releases.state()
        trust = Trust([bundles.trusted()], floor=state.floor)

        def install(path):
            return self.releases.install(Path(path).read_bytes(), passes)

        return update.update(str(self.root), place, trust, install, committed=state.committed)


@pytest.fixture
def device(tmp_path):
    return Device(tmp_path / "opt")


def test_a_board_fetches_what_is_new_and_nothing_twice(device, www):
    _, handler, place = www
    assert device.pull(place) is True
    assert device.releases.state().floor == 2
    assert device.pull(place) is False
    assert [name for name, _ in handler.asked].count("v2.veil") == 1
    assert not list((device.root / "incoming").iterdir())


@pytest.mark.parametrize("seed", range(8))
def test_cut_at_random_bytes_it_goes_on_where_it_was(device, www, seed):
    folder, handler, place = www
    size = (folder / "v2.veil").stat().st_size
    dice = random.Random(seeds.seed(seed))  # noqa: S311 - places to cut, not secrets
    handler.cuts.extend(dice.randrange(0, size // 3) for _ in range(6))
    there, tries = 0, 0
    while device.releases.current is None:
        tries += 1
        with contextlib.suppress(DeviceFailed):
            device.pull(place)
            break
        part = next((device.root / "incoming").iterdir())
        assert part.stat().st_size >= there
        there = part.stat().st_size
        assert tries < 12
    assert tries > 1
    ranges = [wanted for name, wanted in handler.asked if name == "v2.veil"]
    assert sum(wanted is not None for wanted in ranges) >= len(ranges) - 2


def test_a_server_that_knows_no_ranges_is_begun_anew(device, www):
    _, handler, place = www
    handler.knows_ranges = False
    handler.cuts.append(1000)
    with pytest.raises(DeviceFailed, match="broke off after 1000 of"):
        device.pull(place)
    assert device.pull(place) is True


def test_what_is_not_what_the_index_says_is_thrown_away(device, www):
    folder, _, place = www
    data = bytearray((folder / "v2.veil").read_bytes())
    data[len(data) // 2] ^= 1
    good = (folder / "v2.veil").read_bytes()
    (folder / "v2.veil").write_bytes(data)
    with pytest.raises(BundleRefused, match="not what the index says") as refused:
        device.pull(place)
    assert refused.value.reason == "hash-mismatch"
    assert device.releases.current is None
    (folder / "v2.veil").write_bytes(good)
    assert device.pull(place) is True


def test_more_than_was_promised_is_not_read(device, www):
    folder, _, place = www
    (folder / "v2.veil").write_bytes((folder / "v2.veil").read_bytes() + b"x" * 100_000)
    assert device.pull(place) is True


def test_an_older_index_is_refused_and_remembered_as_such(device, www, key):
    folder, _, place = www
    first = (folder / "index.json").read_bytes()
    write_index([folder / "v2.veil"], key, folder / "index.json", name="hall")
    device.pull(place)
    (folder / "index.json").write_bytes(first)
    with pytest.raises(BundleRefused, match="has version 1, and this board has seen 2") as refused:
        device.pull(place)
    assert refused.value.reason == "rolled-back"


def test_a_release_below_the_floor_is_not_fetched(device, www, key):
    folder, handler, place = www
    device.pull(place)
    write_index([folder / "v1.veil"], key, folder / "index.json", name="hall")
    handler.asked.clear()
    with pytest.raises(BundleRefused, match="takes 2 or later"):
        device.pull(place)
    assert [name for name, _ in handler.asked] == ["index.json"]


def test_a_strangers_index_and_half_an_index_say_nothing(device, www):
    folder, _, place = www
    whole = (folder / "index.json").read_bytes()
    for data in (
        whole[: len(whole) // 2],
        whole.replace(bundles.public_hex(bundles.KEY).encode(), bundles.public_hex(bundles.STRANGER).encode()),
        whole.replace(b"v2.veil", b"v1.veil"),
        b"",
    ):
        (folder / "index.json").write_bytes(data)
        with pytest.raises(BundleRefused):
            device.pull(place)
    (folder / "index.json").unlink()
    with pytest.raises(DeviceFailed, match=r"answers 404 when asked for index\.json"):
        device.pull(place)


@pytest.mark.parametrize("place", ["ftp://x/y", "dir:", "file:///etc", "https:x"])
def test_a_place_that_is_none(device, place):
    with pytest.raises(BadInput, match="Expected --from"):
        device.pull(place)


def test_nobody_answers(device):
    with pytest.raises(DeviceFailed, match=r"The connection to .* broke"):
        device.pull("http://127.0.0.1:1")


def test_an_index_names_files_beside_it_and_no_others(www, key):
    folder, _, _ = www
    strange = folder / "-v2.veil"
    shutil.copy(folder / "v2.veil", strange)
    with pytest.raises(BundleRefused, match="no file in its folder"):
        write_index([strange], key, folder / "other.json", name="hall")
    with pytest.raises(BadInput, match="is the index of hall"):
        write_index([folder / "v2.veil"], key, folder / "index.json", name="other")


def test_the_commands_from_the_key_to_a_stick_in_the_board(tmp_path, www, key, capsys):
    folder, _, _ = www
    out = tmp_path / "stick"
    out.mkdir()
    shutil.copy(folder / "v1.veil", out)
    app(["index", str(out / "v1.veil"), "--key", str(key), "--out", str(out / "index.json")], standalone_mode=False)
    root = tmp_path / "board"
    (root / "trust").mkdir(parents=True)
    (root / "trust" / "test.pub").write_text(public_key_line(bundles.trusted()))
    # The runtime in this bundle is none, so its trial fails: the board says so and runs what it ran.
    assert main(["update", "--from", f"dir:{out}", "--root", str(root)]) == 4
    assert "was taken back" in capsys.readouterr().err
    assert main(["update", "--from", f"dir:{tmp_path}", "--root", str(root)]) == 2
    assert "Expected index.json" in capsys.readouterr().err
