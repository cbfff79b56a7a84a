"""``~/.ssh/config``, keys with a passphrase, the agent, and login shells that print; on real sshds and a real agent."""

import contextlib
import getpass
import os
import pwd
import shutil
import subprocess
import time

import pytest
from cryptography.hazmat.primitives import serialization as form
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from edgeveil.devices.transports import open_transport, ssh
from edgeveil.devices.transports.ssh_login import _Locked, _read_key, has_alias, route
from edgeveil.edge_runtime.errors import BadInput, DeviceFailed
from tests.support import programs
from tests.support.boards import sshd

pytestmark = pytest.mark.programs
SECRET = "correct horse"  # noqa: S105 - of no account


@pytest.fixture(scope="module")
def hall(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hall")
    with sshd.running(folder) as running:
        yield running


@pytest.fixture(scope="module")
def gate(tmp_path_factory):
    with sshd.running(tmp_path_factory.mktemp("gate")) as running:
        yield running


@pytest.fixture
def configured(monkeypatch, tmp_path):
    """A home of our own without an agent; the returned function writes its ``~/.ssh/config``."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    (tmp_path / ".ssh").mkdir()

    def write(text, name="config"):
        (tmp_path / ".ssh" / name).write_bytes(text.encode("utf-8", "surrogateescape"))

    return write


def host(name, server, *more):
    files = f"IdentityFile {server.identity}\nIdentityFile /nosuch/key\nUserKnownHostsFile {server.known_hosts}\n"
    login = f"HostName 127.0.0.1\nPort {server.port}\nUser {getpass.getuser()}\n"
    return "\n".join([f"Host {name}", login + files, *more, ""])


def test_an_alias_with_port_user_key_and_a_jump_that_is_included(hall, gate, configured):
    configured("Include gates.conf\n" + host("Hall-1", hall, "ProxyJump Gate"))
    configured(host("Gate", gate), "gates.conf")
    before = (gate.identity.parent / "log").read_text().count("Accepted publickey")
    line = open_transport("ssh://Hall-1")
    assert line.run(["echo", "there"]).out == b"there\n"
    assert (gate.identity.parent / "log").read_text().count("Accepted publickey") == before + 1
    line.close()
    assert has_alias("Hall-1")
    assert not has_alias("Hall-2")

    with pytest.raises(DeviceFailed, match=r"no answer from 127.0.0.1, port 1: .* through Gate"):
        open_transport("ssh://Hall-1:1")
    configured(host("Gate", gate).replace(f"Port {gate.port}", "Port 1"), "gates.conf")
    with pytest.raises(DeviceFailed, match=r"no answer from 127.0.0.1, port 1: Connection refused"):
        open_transport("ssh://Hall-1")


CONFIG = """
Include nosuch/*.conf
ProxyJump ada@one:24,two
Host Hall
  HostName 10.0.0.7
  Port 2200
  User pi
  HostKeyAlias hall.example
  IdentitiesOnly yes
Host one
  ProxyJump none
Host circle
  ProxyJump round
Host round
  ProxyJump circle
Host piped
  ProxyJump none
  ProxyCommand nc %h %p
Host strange
  Port many
""".replace("ProxyJump ada@one:24,two\nHost Hall", "Host Hall\n  ProxyJump ada@one:24,two")


def test_what_is_given_goes_before_what_the_file_says(configured):
    configured(CONFIG)
    one, two, end = route("Hall")
    assert [str(place) for place in (one, two, end)] == ["ada@one", f"{getpass.getuser()}@two", "pi@Hall"]
    assert [(place.host, place.port) for place in (one, two, end)] == [("one", 24), ("two", 22), ("10.0.0.7", 2200)]
    assert (one.key_name, end.key_name, end.only) == ("[one]:24", "hall.example", True)
    given = route("Hall", port=22, user="ada")[-1]
    assert (given.host, given.port, given.user) == ("10.0.0.7", 22, "ada")
    assert [place.host for place in route("10.0.0.9")] == ["10.0.0.9"]


@pytest.mark.parametrize(
    ("text", "name", "said"),
    [
        (CONFIG, "circle", "ProxyJump circle of round leads nowhere, or in a circle"),
        (CONFIG, "piped", "reaches piped by ProxyCommand, .* use ProxyJump"),
        (CONFIG, "strange", "cannot be followed for strange: .*'many'"),
        ("Host", "hall", "config cannot be read: Unparsable line Host"),
        ("Match host", "hall", "config cannot be read: Match host has no value"),
        ("# B\udcfcro", "hall", "as UTF-8 text, and line 1"),
    ],
    ids=["circle", "command", "port", "line", "match", "latin-1"],
)
def test_a_file_that_cannot_be_followed_is_one_sentence(configured, text, name, said):
    configured(text)
    with pytest.raises(BadInput, match=said):
        route(name)


MATCHES = {
    "Match localnetwork 9.8.7.6/32\n  HostName far": "hall",
    "Match tagged x\n  HostName far\nHost hall\n  HostName near": "near",
    "Match Host hall\n  HostName near": "near",  # capital letters are no other criterion
    "Match host=gate,!hall\n  HostName far": "hall",
    "Match !originalhost hall\n  HostName far\nMatch all\n  HostName near": "near",
    "\ufeffHost hall\n  HostName near": "near",
}


@pytest.mark.parametrize("text", MATCHES)
def test_a_match_that_paramiko_does_not_know_fits_no_host(configured, text):
    configured(text)
    assert route("hall")[-1].host == MATCHES[text]
    assert has_alias("hall") is ("Host hall" in text.replace("Match Host", ""))


ODD_LINES = """\
\ufeff# Gr\udcfcn
hall ecdsa-sha2-nistp256 AAAAE2VjZHNhLXNoYTItbmlzdHAyNTYAAAAIbmlzdHAyNTYAAABBBAAA
hall ssh-rsa A
hall sk-ssh-ed25519@openssh.com AAAAGnNrLXNzaC1lZDI1NTE5QG9wZW5zc2guY29t
@cert-authority *.example ssh-ed25519 AAAA
|1|abc|def KEY
hall
""".encode("utf-8", "surrogateescape")


def test_lines_of_known_hosts_that_cannot_be_read_are_left_out_and_revoked_keys_refused(hall, tmp_path):
    known = hall.known_hosts.read_bytes()
    key, odd = b" ".join(known.split()[1:3]), tmp_path / "odd"
    odd.write_bytes(ODD_LINES.replace(b"KEY", key) + known.replace(b" ", b"   ") + b"# end")
    open_transport(hall.target, identity=hall.identity, known_hosts=odd).close()
    with odd.open("ab") as file:
        file.write(b"\n@revoked * " + key + b"\n")
    with pytest.raises(BadInput, match="shows a host key that known_hosts marks as @revoked"):
        open_transport(hall.target, identity=hall.identity, known_hosts=odd)


@pytest.mark.parametrize("kind", ["ed25519", "ec", "rsa"])
def test_a_key_in_pkcs_8_is_read_with_and_without_a_passphrase(tmp_path, kind):
    make = {"ec": lambda: ec.generate_private_key(ec.SECP256R1()), "rsa": lambda: rsa.generate_private_key(65537, 2048)}
    key = make.get(kind, ed25519.Ed25519PrivateKey.generate)()
    public = key.public_key().public_bytes(form.Encoding.OpenSSH, form.PublicFormat.OpenSSH)
    path = tmp_path / "key"
    for lock in (form.NoEncryption(), form.BestAvailableEncryption(b"word")):
        path.write_bytes(key.private_bytes(form.Encoding.PEM, form.PrivateFormat.PKCS8, lock))
        assert _read_key(path, "word").get_base64().encode() == public.split()[1]
    with pytest.raises(_Locked):
        _read_key(path, None)
    for text in ("PuTTY-User-Key-File-3: ssh-ed25519", public.decode(), ""):
        path.write_text(text)
        with pytest.raises(ValueError, match=r"no private key of OpenSSH or PEM .*puttygen"):
            _read_key(path, None)


@pytest.fixture
def locked(hall, tmp_path):
    """A key with a passphrase that may log in; and how it does so."""
    key, keygen = tmp_path / "locked", programs.need("ssh-keygen")
    subprocess.run([keygen, "-q", "-t", "ed25519", "-a", "1", "-N", SECRET, "-f", key], check=True)
    authorized = hall.identity.parent / "authorized"
    before = authorized.read_text()
    authorized.write_text(before + key.with_suffix(".pub").read_text())
    yield key, {"identity": key, "known_hosts": hall.known_hosts}
    authorized.write_text(before)


def test_a_passphrase_is_asked_for_where_somebody_is_there(hall, locked, configured):
    key, how = locked
    with pytest.raises(
        BadInput, match=r"locked has a passphrase, and there is no terminal to ask on: .*ssh-add .*locked"
    ):
        open_transport(hall.target, **how)
    asked, answers = [], iter(["wrong", SECRET])
    open_transport(hall.target, **how, ask=lambda prompt: asked.append(prompt) or next(answers)).close()
    assert asked == [f"Passphrase of {key}: "] * 2


def test_a_key_that_the_agent_holds_needs_no_passphrase(hall, locked, configured, monkeypatch, tmp_path):
    key, how = locked
    shutil.copy(key, tmp_path / "open")
    subprocess.run(
        [programs.need("ssh-keygen"), "-q", "-p", "-P", SECRET, "-N", "", "-f", tmp_path / "open"], check=True
    )
    place = tmp_path / "agent"
    agent = subprocess.Popen([programs.need("ssh-agent"), "-D", "-a", place], stdout=subprocess.DEVNULL)
    try:
        while not place.exists():
            time.sleep(0.02)
        monkeypatch.setenv("SSH_AUTH_SOCK", str(place))
        add = [programs.need("ssh-add"), "-q"]
        subprocess.run([*add, hall.identity], check=True)
        with pytest.raises(BadInput, match="has a passphrase"):  # the key that is named, and no other of the agent
            open_transport(hall.target, **how)
        subprocess.run([*add, tmp_path / "open"], check=True)
        open_transport(hall.target, **how).close()
        open_transport(hall.target, known_hosts=hall.known_hosts).close()
        monkeypatch.delenv("SSH_AUTH_SOCK")
        monkeypatch.setenv("PLACE", str(tmp_path))
        for place, there in (("none", False), ("SSH_AUTH_SOCK", False), ("${PLACE}/agent", True), ("~/agent", True)):
            configured(f"Host *\n  IdentityAgent {place}\n")
            with contextlib.nullcontext() if there else pytest.raises(BadInput, match="refused the login"):
                open_transport(hall.target, known_hosts=hall.known_hosts).close()
    finally:
        agent.terminate()
        agent.wait(10)


@pytest.mark.skipif(pwd.getpwnam(getpass.getuser()).pw_shell != "/bin/bash", reason="the login shell is not bash")
def test_a_login_shell_that_prints_is_survived(hall, tmp_path):
    rc = hall.identity.parent / "home/.bashrc"
    rc.write_text("echo Welcome; echo trouble >&2; trap 'echo bye' EXIT\n")
    line = open_transport(hall.target, identity=hall.identity, known_hosts=hall.known_hosts)
    try:
        done = line.run(["sh", "-c", "cat; echo why >&2; exit 3"], data=b"answer")
        assert (done.code, done.out, done.err) == (3, b"answer", b"why\n")
        line.put(bytes(range(256)) * 1000, str(tmp_path / "there"))
        assert (tmp_path / "there").read_bytes() == bytes(range(256)) * 1000
        with pytest.raises(
            DeviceFailed, match=r"The upload of /nosuch/there failed on the board .*(No such|nonexistent)"
        ):
            line.put(b"data", "/nosuch/there")
        rc.write_text("echo This account is closed; exit 1\n")
        with pytest.raises(DeviceFailed, match=r"ended with code 1 before true began: This account is closed"):
            line.run(["true"])
    finally:
        rc.unlink()
        line.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting is root's")
def test_an_upload_to_a_full_disk_is_one_sentence(hall, tmp_path):
    """Not "the connection was lost ... flash again: it resumes", which it would for ever."""
    (tmp_path / "small").mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", str(tmp_path / "small")], check=True)
    line = open_transport(hall.target, identity=hall.identity, known_hosts=hall.known_hosts)
    try:
        with pytest.raises(DeviceFailed, match=r"^The upload of \S+ failed on the board .*No space left on device"):
            line.put(os.urandom(1 << 20), str(tmp_path / "small/there"))
    finally:
        line.close()
        subprocess.run(["umount", "-l", str(tmp_path / "small")], check=True)


@pytest.mark.parametrize("shell", ["sh", "tcsh"])
def test_the_line_for_the_login_shell_is_one_that_csh_can_read(shell):
    words = ["printf", "%s", "a\nb!c\\n'd'\"e\""]
    line = ssh._line(words, "mark")
    assert "\n" not in line
    assert "!" not in line
    done = subprocess.run(
        [programs.need(shell) if shell == "tcsh" else shell, "-c", line], capture_output=True, check=True
    )
    assert (done.stdout, done.stderr) == (b"mark" + words[2].encode(), b"mark")
