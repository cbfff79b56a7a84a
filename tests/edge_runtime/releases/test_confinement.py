"""What a bundle brought runs where it can change nothing, and its word alone commits nothing."""

import json
import os
import platform
import re
import shutil
import socket
import sys
import tempfile
import textwrap
import time
from pathlib import Path

import pytest

from edgeveil.devices.zipapp import zipapp_bytes
from edgeveil.edge_runtime.cli.main import main
from edgeveil.edge_runtime.errors import DeviceFailed
from edgeveil.edge_runtime.late_imports import ONE_THREAD
from edgeveil.edge_runtime.releases import confinement, runtimes
from edgeveil.edge_runtime.releases.confinement import UIDS
from edgeveil.edge_runtime.signing.keys import public_key_line
from edgeveil.trainer.sealing.trust_file import TrustFolder
from tests.support import bundles

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="ONLY ROOT can start a process as another user")
CLONE = {"x86_64": 56, "aarch64": 220, "armv7l": 120}  # the number of the call
SECRET = "correct horse"  # noqa: S105 - opens nothing but keys made here


@pytest.fixture
def root(tmp_path):
    """A folder of releases, in which anybody might write if it were not read-only."""
    folder = tmp_path / "opt"
    (folder / "open").mkdir(parents=True)
    (folder / "open").chmod(0o777)
    return folder


def attempt(root, code, limit_s=20, **options):
    """What a confined program answers, as JSON."""
    program = "import json, os, resource, socket, sys\n" + textwrap.dedent(code)
    ended = confinement.run([sys.executable, "-c", program], root=str(root), limit_s=limit_s, **options)
    assert ended.code == 0, ended
    return json.loads(ended.output)


@needs_root
def test_another_user_without_rights(root):
    found = attempt(
        root,
        """
        status = dict(line.split(":", 1) for line in open("/proc/self/status"))
        print(json.dumps([os.getresuid(), os.getresgid(), os.getgroups(), status["CapEff"].strip(),
            status["NoNewPrivs"].strip(), sorted(os.environ)]))
        """,
    )
    uid = found[0][0]
    assert uid in UIDS
    assert found[:5] == [[uid] * 3, [uid] * 3, [], "0" * 16, "1"]
    assert "EDGEVEIL_PASSPHRASE" not in found[5]
    assert set(found[5]) <= {*confinement._KEPT, *ONE_THREAD, "HOME", "LC_CTYPE", "PYTHONDONTWRITEBYTECODE"}


@needs_root
def test_two_at_once_are_two_users(root, monkeypatch):
    """The end of one ends all that its user runs: boards that are flashed at once on one machine lost their trials."""
    monkeypatch.setattr(os, "urandom", lambda _length: b"\x05")
    asks = "print(json.dumps(os.getuid()))"
    with confinement._own_user() as other:
        assert [other, attempt(root, asks), attempt(root, asks)] == [UIDS[5], UIDS[6], UIDS[6]]
    assert attempt(root, asks) == UIDS[5]


@needs_root
def test_where_all_users_are_taken_nothing_runs(root, monkeypatch):
    monkeypatch.setattr(confinement, "UIDS", UIDS[:1])
    monkeypatch.setattr(os, "urandom", lambda _length: b"\0")
    with confinement._own_user(), pytest.raises(DeviceFailed, match="none of 1 users for it is free"):
        attempt(root, "print(1)")
    assert attempt(root, "print(1)") == 1


@needs_root
def test_the_releases_are_read_only_even_where_the_modes_say_otherwise(root):
    said = attempt(
        root,
        f"""
        try:
            open({str(root / "open/x")!r}, "w")
            print(json.dumps("written"))
        except OSError as error:
            print(json.dumps(error.errno))
        """,
    )
    assert said == 30  # EROFS
    assert list((root / "open").iterdir()) == []


@needs_root
@pytest.mark.parametrize(("through", "mode"), [("/tmp", 0o755), ("/run", 0o700)])  # noqa: S108 - hidden, and closed
def test_a_python_that_is_a_link_through_what_a_trial_cannot_reach_is_named(root, through, mode):
    """It sees no temporary files of others and enters no closed folder, and a link may lead on from there."""
    with tempfile.TemporaryDirectory(dir="/run") as mine, tempfile.TemporaryDirectory(dir=through) as hidden:
        first, second = Path(mine, "python"), Path(hidden, "python")
        Path(mine).chmod(0o755)
        Path(hidden).chmod(mode)
        first.symlink_to(second)
        second.symlink_to(os.path.realpath(sys.executable))
        with pytest.raises(DeviceFailed) as caught:
            confinement.run([str(first), "-c", ""], root=str(root), limit_s=20)
    assert str(caught.value) == (
        f"a trial cannot start {first}, a link by way of {second}: temporary files and closed folders of others are "
        "out of its reach. Link it to a program elsewhere, or install one"
    )


@needs_root
def test_it_starts_whatever_the_umask(root):
    before = os.umask(0o077)
    try:
        assert attempt(root, "print(json.dumps(1))") == 1
    finally:
        os.umask(before)


@needs_root
def test_it_sees_no_process_leaves_no_file_and_makes_no_user_namespace(root):
    """What it writes among temporary files is its own; in a namespace of its own user it would have every right."""
    mark = f"edgeveil-left-{time.monotonic_ns()}"
    said = attempt(
        root,
        f"""
        import ctypes, threading
        for folder in {confinement._TEMPORARY}:
            open(os.path.join(folder, {mark!r}), "w").write("x")
        library, made = ctypes.CDLL(None, use_errno=True), []
        for flags in (0x10000000, 0x10000000 | 0x40000000):
            made.append(library.unshare(flags))
        child = library.syscall({CLONE[platform.machine()]}, 0x10000000 | 17, 0, 0, 0, 0)
        if child == 0:
            os._exit(0)
        thread = threading.Thread(target=made.append, args=[0])
        thread.start()
        thread.join()
        print(json.dumps([sorted(name for name in os.listdir("/proc") if name.isdigit()), made, child]))
        """,
    )
    assert said == [["1"], [-1, -1, 0], -1]
    assert not any(Path(folder, mark).exists() for folder in confinement._TEMPORARY)


@needs_root
def test_no_network_and_no_other_process_is_in_reach(root):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        said = attempt(
            root,
            f"""
            try:
                socket.create_connection(("127.0.0.1", {port}), 2)
                reached = True
            except OSError:
                reached = False
            print(json.dumps([reached, os.getpid()]))
            """,
        )
    assert said == [False, 1]


@needs_root
def test_what_it_starts_ends_with_it(root):
    mark = f"edgeveil-left-behind-{time.monotonic_ns()}"
    attempt(
        root,
        f"""
        import subprocess
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)", {mark!r}], start_new_session=True)
        print(json.dumps(0))
        """,
    )
    assert not any(mark in _command(process) for process in Path("/proc").glob("[0-9]*"))


ESCAPER = """
import ctypes, os, signal, time
if os.fork() == 0:
    os.setsid()
    ctypes.CDLL(None).prctl(1, 0)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    while True:
        time.sleep(0.05)
        open("MARK", "a").write("x")
if os.fork() == 0:
    os.setsid()
    ctypes.CDLL(None).prctl(1, 0)
ctypes.CDLL(None).prctl(1, 0)
os.setsid() if os.getpid() != os.getpgid(0) else None
time.sleep(60)
"""


@needs_root
@pytest.mark.parametrize("namespaces", [True, False])
def test_what_leaves_its_group_and_its_parent_ends_too(root, monkeypatch, namespaces):
    if not namespaces:
        unshare = confinement._unshare
        mounts = confinement._NEWNS  # without them the tests' Python may be out of reach
        monkeypatch.setattr(confinement, "_unshare", lambda c, flags: flags == mounts and unshare(c, flags))
    folder = Path(tempfile.mkdtemp(dir="/run"))
    folder.chmod(0o777)
    mark = folder / "mark"
    try:
        code = ESCAPER.replace("MARK", str(mark))
        assert confinement.run([sys.executable, "-c", code], root=str(root), limit_s=1).code is None
        time.sleep(0.2)
        written = mark.stat().st_size
        assert written
        time.sleep(0.5)
        assert mark.stat().st_size == written
    finally:
        shutil.rmtree(folder)


def _command(process):
    try:
        return (process / "cmdline").read_text()
    except OSError:
        return ""


def test_limits_of_memory_processes_time_and_files(root):
    memory = 4 * os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    said = attempt(
        root,
        f"""
        try:
            bytearray({memory})
            large = True
        except MemoryError:
            large = False
        started = 0
        if os.getuid() in range({UIDS.start}, {UIDS.stop}):
            try:
                while started < 1000:
                    if os.fork() == 0:
                        import time; time.sleep(60)
                    started += 1
            except OSError:
                pass
        print(json.dumps([large, started, resource.getrlimit(resource.RLIMIT_FSIZE)[0],
            resource.getrlimit(resource.RLIMIT_CORE)[0]]))
        """,
    )
    assert said[0] is False
    assert said[1] < confinement.PROCESSES
    assert said[2:] == [confinement.FILE_BYTES, 0]
    begun = time.monotonic()
    ended = confinement.run([sys.executable, "-c", "import time; time.sleep(60)"], root=str(root), limit_s=1)
    assert ended.code is None
    assert time.monotonic() - begun < 20


# A bundle's own runtime that is not what it should be ----------------------------------------------------------------

EVIL = """
import os, sys
found = []
for path in ("trust/root.pub", "trust/trust.json", "state.json", "state-copy.json", "current", "lock"):
    try:
        os.unlink(os.path.join(ROOT, path))
        found.append(path)
    except OSError:
        pass
try:
    open(os.path.join(ROOT, "open/pwned"), "w").write("uid %d" % os.getuid())
except OSError:
    pass
sys.stderr.write("uid %d removed %r" % (os.getuid(), found))
sys.exit(CODE)
"""


@pytest.fixture(scope="module")
def owner(tmp_path_factory):
    folder = tmp_path_factory.mktemp("owner")
    (folder / "test.pub").write_text(public_key_line(bundles.trusted()))
    TrustFolder.init(folder / "root", [folder / "test.pub"], passphrase=SECRET)
    return folder


@pytest.fixture(scope="module")
def installed(owner, tmp_path_factory):
    """A board that runs a first release, to copy."""
    root = tmp_path_factory.mktemp("installed") / "opt"
    (root / "trust").mkdir(parents=True)
    for name in ("root.pub", "trust.json"):
        shutil.copy(owner / "root" / name, root / "trust")
    assert main(["install", str(bundle(owner, 1, zipapp_bytes())), "--root", str(root), "--frames", "3"]) == 0
    return root


@pytest.fixture
def board(installed, root):
    """A board of the test's own that runs a first release."""
    return shutil.copytree(installed, root, symlinks=True, dirs_exist_ok=True)


def bundle(owner, version, runtime, *, spoil=False):
    def change(manifest, members):
        manifest["security_version"] = version
        members["runtime/edgeveil-edge.pyz"] = runtime
        if spoil:
            name = next(iter(manifest["golden"]["outputs"]["numpy"].values()))
            array = bytearray(members[name])
            array[-1] ^= 0x7F
            members[name] = bytes(array)

    return bundles.make_bundle(owner, change=change, name=f"{version}{spoil}.veil").path


def evil(root, code):
    return EVIL.replace("ROOT", repr(str(root))).replace("CODE", str(code)).encode()


def tree(root):
    return {p.relative_to(root): p.read_bytes() for p in root.rglob("*") if p.is_file() and p.name != "lock"}


@needs_root
def test_a_bundles_own_runtime_cannot_touch_the_trust_while_it_is_tried(board, owner, capsys):
    """A signing key is not the owner of the board: a trial removed the trust and then failed on purpose."""
    before = tree(board)
    assert main(["install", str(bundle(owner, 2, evil(board, 7))), "--root", str(board), "--frames", "3"]) == 4
    said = capsys.readouterr().err
    assert re.search(r"uid (\d+) removed \[\]", said), said
    assert int(re.search(r"uid (\d+) removed", said)[1]) in UIDS
    changed = {str(name) for name, data in tree(board).items() if before.get(name) != data}
    assert {name for name in changed if not name.startswith("releases/")} == {"state.json", "state-copy.json"}
    assert json.loads((board / "state.json").read_text())["floor"] == 1
    assert not (board / "open/pwned").exists()


@needs_root
@pytest.mark.parametrize(("device", "tried"), [("cpu", 2), ("edgetpu", 1), ("myriad", 1)])
def test_nothing_of_a_bundle_is_given_an_accelerator(board, monkeypatch, device, tried):
    calls, said = [], []
    monkeypatch.setattr(runtimes.os, "geteuid", lambda: 0)
    monkeypatch.setattr(
        confinement, "run", lambda command, **given: calls.append(given) or confinement.Ended(0, "", "")
    )
    (sha,) = (path.name for path in (board / "releases").iterdir())
    found = runtimes.open_releases(str(board)).read(sha)
    runtimes.trial(str(board), None, 3, device, said.append)(str(board / "releases" / sha), found)
    assert len(calls) == tried
    assert all(not given["groups"] and not given["network"] for given in calls[1:])
    assert any("was not tried" in one for one in said) == (tried == 1)


def test_what_a_bundles_own_runtime_says_of_itself_commits_nothing(board, owner, capsys):
    """It says that it passed; the installed runtime computes something else on the golden vectors."""
    liar = bundle(owner, 3, b"import sys; print('passed: 30 frames with numpy on cpu')", spoil=True)
    before = (board / "current").readlink()
    assert main(["install", str(liar), "--root", str(board), "--frames", "3"]) == 4
    assert "golden self-test" in capsys.readouterr().err
    assert (board / "current").readlink() == before


@pytest.mark.parametrize("code", [137, -9])  # with a namespace of its own, and without
def test_a_trial_that_is_killed_says_so(board, owner, monkeypatch, capsys, code):
    """As where memory is short: whom the kernel ends says nothing."""
    monkeypatch.setattr(confinement, "run", lambda _command, **_given: confinement.Ended(code, "", ""))
    assert main(["install", str(bundle(owner, 4, b"pass")), "--root", str(board), "--frames", "3"]) == 4
    assert f"its trial ended with code {code} (killed: there may be too little memory)" in capsys.readouterr().err


@needs_root
def test_a_bundle_whose_own_runtime_fails_is_taken_back(board, owner, capsys):
    before = (board / "current").readlink()
    broken = bundle(owner, 4, b"import sys; sys.exit('it cannot')")
    assert main(["install", str(broken), "--root", str(board), "--frames", "3"]) == 4
    assert "the trial by its own runtime ended with code 1 (it cannot)" in capsys.readouterr().err
    assert (board / "current").readlink() == before
    assert [p.name for p in board.iterdir() if p.name.startswith("trial-")] == []
