"""edgeveil.edge_runtime.releases.index against a real server on loopback that hangs up where it likes."""

import contextlib
import hashlib
import http.server
import json
import os
import random
import re
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from edgeveil.edge_runtime.bundle import index_seen
from edgeveil.edge_runtime.bundle.reader import unverified_manifest
from edgeveil.edge_runtime.bundle.trust_file import Trust
from edgeveil.edge_runtime.cli.main import main
from edgeveil.edge_runtime.errors import BadInput, BundleRefused, DeviceFailed
from edgeveil.edge_runtime.releases import index
from edgeveil.edge_runtime.releases.store import Releases
from edgeveil.edge_runtime.signing.keys import public_key_line
from edgeveil.trainer.cli.main import app
from edgeveil.trainer.sealing.keys import KEY_FILE, Signer, keygen, write_index
from tests.edge_runtime.bundle.taken_once import counted
from tests.support import bundles, seeds


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
        most = self.cuts.pop() if self.cuts and path.suffix == ".veil" else len(data)
        self.wfile.write(data[begin:][:most])

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

    def trust(self, **more):
        return Trust([bundles.trusted()], floor=self.releases.state().floor, **more)

    def pull(self, place):
        state, trust = self.releases.state(), self.trust()

        def install(path):
            return self.releases.install(Path(path).read_bytes(), passes)

        return index.update(str(self.root), place, trust, install, committed=state.committed)


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
    good = (folder / "v2.veil").read_bytes()
    data = bytearray(good)
    data[len(data) // 2] ^= 1
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


def test_an_older_index_is_refused_and_remembered_as_such(device, www, key, record_property):
    counted(record_property, "index sent", "the version before")
    folder, _, place = www
    first = (folder / "index.json").read_bytes()
    write_index([folder / "v2.veil"], key, folder / "index.json", name="hall")
    device.pull(place)
    (folder / "index.json").write_bytes(first)
    with pytest.raises(BundleRefused, match="has version 1, and this board has seen 2") as refused:
        device.pull(place)
    assert refused.value.reason == "rolled-back"


def test_a_release_below_the_floor_is_not_fetched(device, www, key, record_property):
    counted(record_property, "index sent", "a release below the floor")
    folder, handler, place = www
    device.pull(place)
    write_index([folder / "v1.veil"], key, folder / "index.json", name="hall")
    handler.asked.clear()
    with pytest.raises(BundleRefused, match="takes 2 or later"):
        device.pull(place)
    assert [name for name, _ in handler.asked] == ["index.json"]


def test_what_an_index_offers_is_remembered_though_it_does_not_run(device, www, monkeypatch):
    folder, _, place = www

    def fails(_folder, _bundle):
        raise DeviceFailed("it does not run here")

    assert index_seen.read_offered(str(device.root)) is None
    monkeypatch.setitem(globals(), "passes", fails)
    with pytest.raises(DeviceFailed, match="does not run here"):
        device.pull(place)
    offered = index_seen.read_offered(str(device.root))
    assert offered == hashlib.sha256(unverified_manifest(str(folder / "v2.veil"))).hexdigest()
    assert device.releases.state().committed != offered


def test_a_strangers_index_and_half_an_index_say_nothing(device, www, record_property):
    counted(record_property, "index sent", "not as it was signed", 4)
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


def test_what_another_key_signed_is_named_with_both_ways_on_and_no_trust_folder(www, key, tmp_path):
    folder, _, _ = www
    other, own = keygen(tmp_path / "other").with_name(KEY_FILE), folder / "own.json"
    said = "was signed by another key than {}..., the one given. Give the key that signed it, or sign it anew"
    for signs, signed, out in ((other, folder / "v2.veil", own), (other, folder / "index.json", folder / "index.json")):
        with pytest.raises(BadInput, match=re.escape(f"{signed} {said.format(Signer.open(signs).key.key[:16])}")):
            write_index([folder / "v2.veil"], signs, out, name="hall")
    assert not own.exists()


def test_the_commands_from_the_key_to_a_stick_in_the_board(tmp_path, www, key, capsys):
    folder, _, _ = www
    out = tmp_path / "stick"
    out.mkdir()
    shutil.copy(folder / "v1.veil", out)
    words = ["update", "index", str(out / "v1.veil"), "--key", str(key), "--out", str(out / "index.json")]
    app(words, standalone_mode=False)
    root = tmp_path / "board"
    (root / "trust").mkdir(parents=True)
    (root / "trust" / "test.pub").write_text(public_key_line(bundles.trusted()))
    # The runtime in this bundle is none, so its trial fails: the board says so and runs what it ran.
    assert main(["update", "--from", f"dir:{out}", "--root", str(root)]) == 4
    assert "was taken back" in capsys.readouterr().err
    assert main(["update", "--from", f"dir:{tmp_path}", "--root", str(root)]) == 2
    assert "Expected index.json" in capsys.readouterr().err


# A server that is anybody's -------------------------------------------------------------------------------------------


def test_an_index_of_another_product_is_refused_whoever_signed_it(device, www, key, record_property):
    counted(record_property, "index sent", "another product")
    folder, handler, place = www
    device.pull(place)
    (folder / "index.json").unlink()
    write_index([folder / "v2.veil"], key, folder / "index.json", name="toilet")
    handler.asked.clear()
    with pytest.raises(BundleRefused, match="of the product 'toilet', and this board follows 'hall'") as refused:
        device.pull(place)
    assert refused.value.reason == "other-product"
    assert [name for name, _ in handler.asked] == ["index.json"]
    # The trust file that root signed may name another one.
    data = (folder / "index.json").read_bytes()
    seen = index_seen.read_seen(str(device.root))
    index.check_index(index.read_index(data, device.trust()), seen, device.trust(product="toilet"))
    with pytest.raises(BundleRefused):
        index.check_index(index.read_index(data, device.trust()), None, device.trust(product="hall"))


def test_an_index_for_another_audience_is_refused(device, www, key, record_property):
    counted(record_property, "index sent", "another audience", 3)
    folder, _, place = www
    (folder / "index.json").unlink()
    write_index([folder / "v2.veil"], key, folder / "index.json", name="hall", audience="ward-7")
    with pytest.raises(BundleRefused, match="for 'ward-7'") as refused:
        device.pull(place)
    assert refused.value.reason == "other-audience"
    ward = device.trust(audience="ward-7")
    data = (folder / "index.json").read_bytes()
    mine = index.read_index(data, ward)
    index.check_index(mine, None, ward)
    index.record_seen(str(device.root), mine, None)
    seen = index_seen.read_seen(str(device.root))
    (folder / "index.json").unlink()
    for audience in ("", "ward-8"):
        write_index([folder / "v2.veil"], key, folder / "other.json", name="hall", audience=audience)
        with pytest.raises(BundleRefused, match="the index is for"):
            index.check_index(index.read_index((folder / "other.json").read_bytes(), ward), seen, ward)
        (folder / "other.json").unlink()


def test_two_indexes_of_one_version_are_one_too_many(device, www, key, record_property):
    counted(record_property, "index sent", "the same version, otherwise")
    folder, _, place = www
    device.pull(place)
    (folder / "index.json").unlink()
    write_index([folder / "v2.veil"], key, folder / "index.json", name="hall")
    with pytest.raises(BundleRefused, match="two of version 1"):
        device.pull(place)


NOW = 1_800_000_000  # 2027


def test_a_freeze_is_seen(device, www, monkeypatch):
    _, _, place = www
    for now in (NOW, NOW + 1000):
        monkeypatch.setattr(index_seen, "clock_now", lambda now=now: now)
        monkeypatch.setattr(index, "clock_now", lambda now=now: now)
        device.pull(place)
    shown = index_seen.index_seen(str(device.root))
    assert shown.pop("age_s") < 60
    assert shown == {"name": "hall", "audience": "", "version": 1, "changed_at": NOW, "asked_at": NOW + 1000}


def test_a_damaged_record_of_the_index_is_not_taken_for_none(device, www):
    _, _, place = www
    device.pull(place)
    device.releases.recover()  # as at each start: from then on the board remembers that it had a record
    seen = index_seen.read_seen(str(device.root))
    both = [device.root / name for name in ("index-seen.json", "index-seen-copy.json")]
    others = [
        both[0].read_bytes().replace(b'"others":{}', b'"others":' + other) for other in (b"[1]", b'{"hall":null}')
    ]
    for damage in (b"{", b"[]", b'{"schema":2}', b'{"schema":5}', *others, None):
        for path in both:
            kept = path.read_bytes()
            path.unlink() if damage is None else path.write_bytes(damage)
            assert index_seen.read_seen(str(device.root)) == seen  # the whole one is enough
            path.write_bytes(kept)
        for path in both:
            path.unlink() if damage is None else path.write_bytes(damage)
        with pytest.raises(DeviceFailed, match=r"index-seen.* no index is taken\. .* recover --repair"):
            device.pull(place)
        index_seen.write_seen(str(device.root), seen)
    for path in both:
        path.write_bytes(b"{")
    device.releases.repair()
    assert device.pull(place) is False


@pytest.mark.parametrize("lost", ["index-seen.json", "index-seen-copy.json"])
def test_the_higher_version_of_the_two_places_holds(device, www, key, lost, record_property):
    counted(record_property, "index sent", "the version before, one record of it lost or put back", 2)
    folder, _, place = www
    first = (folder / "index.json").read_bytes()
    device.pull(place)
    old = (device.root / lost).read_bytes()
    write_index([folder / "v2.veil"], key, folder / "index.json", name="hall")
    device.pull(place)
    (folder / "index.json").write_bytes(first)
    for data in (old, None):
        (device.root / lost).unlink()
        if data is not None:
            (device.root / lost).write_bytes(data)  # out of a backup
        with pytest.raises(BundleRefused, match="has version 1, and this board has seen 2"):
            device.pull(place)


@pytest.mark.parametrize("change", [{"name": "other"}, {"manifest_sha256": "0" * 64}, {"security_version": 3}])
def test_an_index_that_offers_another_bundle_than_it_says_is_refused(device, www, key, change, record_property):
    """Mix and match: each part is truly signed."""
    counted(record_property, "index sent", "another bundle than it says")
    folder, _, place = www
    payload = json.loads(json.loads((folder / "index.json").read_bytes())["payload"])
    payload["releases"][0].update(change)
    (folder / "index.json").write_bytes(Signer.open(key).envelope("index", payload))
    with pytest.raises(BundleRefused, match=r"v2\.veil is another bundle") as refused:
        device.pull(place)
    assert refused.value.reason == "other-bundle"
    assert device.releases.current is None


def test_the_products_that_version_0_1_followed_are_still_followed(device, www):
    _, _, place = www
    (device.root / "index-seen.json").write_text('{"attic": 5, "hall": 1}')
    assert device.pull(place) is True
    (device.root / "index-seen.json").write_text('{"attic": 5}')
    (device.root / "index-seen-copy.json").unlink()
    with pytest.raises(BundleRefused, match="follows 'attic'"):
        device.pull(place)


@pytest.mark.parametrize("to", ["http://127.0.0.1:9/", "ftp://127.0.0.1/", "file:///etc/", "https://other.example/"])
def test_a_redirect_to_anywhere_else_is_not_followed(device, www, to, monkeypatch):
    _, handler, place = www

    def elsewhere(self):
        self.send_response(302)
        self.send_header("Location", to + self.path.lstrip("/"))
        self.end_headers()

    monkeypatch.setattr(handler, "do_GET", elsewhere)
    with pytest.raises(DeviceFailed, match=r"sends on to|answers 302"):
        device.pull(place)


def test_a_redirect_on_the_same_server_is_followed(device, www, monkeypatch):
    _, handler, place = www
    plain = Server.do_GET

    def once(self):
        if self.path.startswith("/hall/"):
            self.send_response(302)
            self.send_header("Location", self.path[len("/hall") :])
            self.end_headers()
        else:
            plain(self)

    monkeypatch.setattr(handler, "do_GET", once)
    assert device.pull(place + "/hall") is True


@pytest.mark.parametrize("part", ["headers", "index", "bundle"])
def test_a_drip_fed_answer_ends_in_time(device, www, part, monkeypatch):
    _, handler, place = www
    monkeypatch.setattr(index, "INDEX_LIMIT_S", 1.0)
    monkeypatch.setattr(index, "BUNDLE_LIMIT_S", 1.0)
    plain = Server.do_GET

    def drips(self):
        if part == "bundle" and self.path.endswith("index.json"):
            plain(self)
            return
        head = b"HTTP/1.1 200 OK\r\nX-Long: " if part == "headers" else b"HTTP/1.1 200 OK\r\n\r\n"
        with contextlib.suppress(OSError):
            self.wfile.write(head)
            for _ in range(100):
                self.wfile.write(b"x")
                self.wfile.flush()
                time.sleep(0.1)

    monkeypatch.setattr(handler, "do_GET", drips)
    began = time.monotonic()
    with pytest.raises(DeviceFailed, match="more than 1 s"):
        device.pull(place)
    assert time.monotonic() - began < 5
    if part == "bundle":
        assert next((device.root / "incoming").iterdir()).stat().st_size > 0


def test_an_index_without_end_is_not_read(device, www, tmp_path):
    folder, _, place = www
    (folder / "index.json").write_bytes(b" " * 2**22)
    assert len(index.open_origin(place).read_small("index.json")) == 2**20 + 1
    for where in (place, f"dir:{folder}"):
        with pytest.raises(BundleRefused, match="more than 1048576 bytes"):
            device.pull(where)
    (folder / "index.json").unlink()
    os.mkfifo(folder / "index.json")
    with pytest.raises(BadInput, match="no regular file"):
        device.pull(f"dir:{folder}")


def test_a_strangers_file_costs_little_memory(tmp_path):
    """A file of 250 MiB by a key that is not trusted is refused after its first mebibyte."""
    made = bundles.make_bundle(tmp_path, key=bundles.STRANGER)
    huge = tmp_path / "huge.veil"
    manifest, members = bundles.numpy_example()
    members["runtime/edgeveil-edge.pyz"] = bytes(2**20 * 16)
    huge.write_bytes(bundles.sealed(bundles.with_members(manifest, members), members, bundles.STRANGER))
    os.truncate(huge, 250 * 2**20)
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "test.pub").write_text(public_key_line(bundles.trusted()))
    code = (
        "import sys; from edgeveil.edge_runtime.cli.main import main; from edgeveil.edge_runtime import machine; "
        "code = main(['verify', sys.argv[1], '--trust', sys.argv[2]]); print(machine.peak_rss_bytes()); sys.exit(code)"
    )
    peaks = []
    for path in (made.path, huge):
        run = [sys.executable, "-c", code, str(path), str(tmp_path / "own")]
        done = subprocess.run(run, capture_output=True, text=True, check=False)
        assert done.returncode == 2
        assert "not in the trust folder" in done.stderr
        peaks.append(int(done.stdout))
    print(f"peak memory for a stranger's file: small {peaks[0]}, of 250 MiB {peaks[1]}")
    assert peaks[1] - peaks[0] < 16 * 2**20
