"""Where an SSH address leads, and who logs in there: ``~/.ssh/config``, the agent, key files and their passphrases."""

from __future__ import annotations

import base64
import contextlib
import getpass
import io
import os
import re
import shlex
import socket
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from glob import glob
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from edgeveil.edge_runtime.errors import BadInput, reason, written_text

CONFIG = "~/.ssh/config"
DEFAULT_KEYS = ("~/.ssh/id_ed25519", "~/.ssh/id_ecdsa", "~/.ssh/id_rsa")
TRIES = 3  # for a passphrase, as ssh
_OPENSSH = b"openssh-key-v1\0"
_ALONE = ("all", "canonical", "final")  # criteria of Match without a value, and those with one
_WITH_VALUE = ("host", "originalhost", "user", "localuser", "exec")
_HASHED = re.compile(r"\|1\|[A-Za-z0-9+/]{27}=\|[A-Za-z0-9+/]{27}=")

Ask = Callable[[str], str]  # shows a prompt, and returns the secret that was typed


@dataclass(frozen=True)
class Place:
    """One host on the way to a board. ``name``: as it was written; ``key_name``: as known_hosts has it.

    ``identity``: the key that was asked for; ``identities``: those of the configuration; ``only``: no others are tried.
    ``agent``: the socket of the agent, "none" for none, None for that of the environment.
    """

    name: str
    host: str
    port: int
    user: str
    key_name: str
    known_hosts: tuple[Path, ...]
    identity: Path | None
    identities: tuple[Path, ...]
    only: bool
    agent: str | None
    jumps: tuple[str, ...]

    def __str__(self) -> str:
        """For messages."""
        return f"{self.user}@{self.name}"


def route(
    host: str,
    *,
    port: int | None = None,
    user: str | None = None,
    identity: Path | None = None,
    known_hosts: Path | None = None,
) -> list[Place]:
    """The hosts that lead to ``host``, itself the last: those of ``ProxyJump`` in ``~/.ssh/config`` come first.

    What is given goes before what the file says. Raises ``BadInput`` for a file that cannot be read or followed.
    """
    config = _config()
    end = _place(config, host, port, user, identity, known_hosts)
    return [*_jumps(config, end, (host,)), end]


def has_alias(name: str) -> bool:
    """Whether ``~/.ssh/config`` has a ``Host`` of exactly that name. Raises ``BadInput`` if it cannot be read."""
    _config()
    lines = (line.replace("=", " ", 1).replace('"', " ").split() for line in _lines(Path(CONFIG).expanduser()))
    return any(name in line[1:] for line in lines if line and line[0].lower() == "host")


def _config() -> Any:
    import paramiko

    try:
        return paramiko.SSHConfig.from_text("".join(_lines(Path(CONFIG).expanduser())))
    except (OSError, ValueError, paramiko.SSHException) as error:
        raise BadInput(f"{CONFIG} cannot be read: {reason(error)}. Correct it.") from None


def _lines(path: Path) -> Iterator[str]:
    """The lines of a configuration, with those of the files that it includes before its first host."""
    at_top = True
    for line in written_text(path, "A configuration of ssh").splitlines(keepends=True) if path.is_file() else ():
        word, _, rest = line.strip().replace("=", " ", 1).partition(" ")
        at_top = at_top and word.lower() not in ("host", "match")
        if word.lower() == "include" and at_top:
            for pattern in rest.split():
                for file in sorted(glob(str(path.parent / Path(pattern).expanduser()))):  # noqa: PTH207 - it may be absolute
                    yield from (*_lines(Path(file)), "Host *\n")
        else:
            yield _match(rest) if word.lower() == "match" else line
    yield "\n"


def _match(rest: str) -> str:
    """A line with ``Match`` as paramiko reads it, for which a criterion that it does not know fits every host.

    Here it fits none. Raises ``ValueError`` for one without its value.
    """
    words, out = iter(shlex.split(rest)), ["Match"]
    for word in words:
        criterion, _, value = word.partition("=")
        name = criterion.lower().lstrip("!")
        if name not in _ALONE + _WITH_VALUE:
            return "Host !*\n"
        out.append(criterion.lower())
        if name in _WITH_VALUE:
            value = value or next(words, "")
            if not value:
                raise ValueError(f"Match {criterion} has no value")
            out.append(shlex.quote(value))
    return " ".join(out) + "\n"


def _place(
    config: Any,
    name: str,
    port: int | None,
    user: str | None,
    identity: Path | None = None,
    known_hosts: Path | None = None,
) -> Place:
    import paramiko

    try:
        entry = config.lookup(name)
        port = port or int(entry.get("port", 22))
    except (ImportError, ValueError, paramiko.SSHException) as error:
        raise BadInput(f"{CONFIG} cannot be followed for {name}: {error}. Correct it.") from None
    jumps = entry.get("proxyjump", "none")
    if jumps == "none" and entry.get("proxycommand"):
        raise BadInput(f"{CONFIG} reaches {name} by ProxyCommand, which EdgeVeil does not run: use ProxyJump there.")
    host, hosts = entry["hostname"], entry.get("userknownhostsfile", "~/.ssh/known_hosts ~/.ssh/known_hosts2").split()
    plain, agent = entry.get("hostkeyalias") or host, entry.get("identityagent", "SSH_AUTH_SOCK")
    return Place(
        name=name,
        host=host,
        port=port,
        user=user or entry.get("user") or getpass.getuser(),
        key_name=plain if port == 22 or "hostkeyalias" in entry else f"[{host}]:{port}",
        known_hosts=tuple(Path(one).expanduser() for one in hosts) if known_hosts is None else (known_hosts,),
        identity=identity,
        identities=tuple(Path(one).expanduser() for one in entry.get("identityfile", ())),
        only=identity is not None or entry.get("identitiesonly", "no") == "yes",
        agent=None if agent == "SSH_AUTH_SOCK" else os.path.expandvars(str(Path(agent).expanduser())),
        jumps=() if jumps == "none" else tuple(part.strip() for part in jumps.split(",")),
    )


def _jumps(config: Any, end: Place, seen: tuple[str, ...]) -> list[Place]:
    """The hosts before ``end``. As in ssh, the first of several alone may have jumps of its own."""
    places: list[Place] = []
    for text in end.jumps:
        url = urlsplit(text if "://" in text else f"ssh://{text}")
        try:
            name, port = host_of(url), url.port
        except ValueError:
            name, port = "", None
        if not name or name in seen:
            raise BadInput(f"{CONFIG}: ProxyJump {text} of {end.name} leads nowhere, or in a circle. Correct it.")
        hop = _place(config, name, port, url.username)
        places += [*(() if places else _jumps(config, hop, (*seen, name))), hop]
    return places


def host_of(url: Any) -> str:
    """The host of a URL in its own letters: an alias may have capital ones."""
    host = url.hostname or ""
    at = url.netloc.lower().rfind(host)
    return url.netloc[at : at + len(host)]


def known_keys(files: Iterable[Path]) -> tuple[list[Any], frozenset[bytes]]:
    """The entries of files of host keys, and the keys that they mark as revoked.

    As in ssh, a line that cannot be read is left out. Raises ``OSError``.
    """
    from paramiko.hostkeys import HostKeyEntry

    entries, revoked = [], set()
    for line in "\n".join(file.read_bytes().decode("utf-8-sig", "replace") for file in files).splitlines():
        words = line.split()
        marker = words.pop(0) if line.startswith("@") else ""
        try:
            entry = None if line.startswith("#") else HostKeyEntry.from_line(" ".join(words))
        except Exception:  # noqa: S112 - paramiko's kinds: of a key, of its base64, of its numbers
            continue
        if entry is not None and marker == "@revoked":
            revoked.add(entry.key.asbytes())
        elif entry is not None and not marker:
            entry.hostnames = [name for name in entry.hostnames if name[:1] != "|" or _HASHED.fullmatch(name)]
            entries.append(entry)
    return [entry for entry in entries if entry.key.asbytes() not in revoked], frozenset(revoked)


class Login:
    """Logs in at ``place``: keys of the agent and of files, then passphrases of these, then a password.

    paramiko calls ``authenticate`` (its ``auth_strategy``). ``ask`` is None where no one can be asked.
    """

    def __init__(self, place: Place, password: str | None, ask: Ask | None) -> None:
        self._place, self._password, self._ask = place, password, ask
        self._locked: list[Path] = []  # key files that have a passphrase

    def authenticate(self, transport: Any) -> None:
        """Log in. Raises paramiko's ``AuthenticationException`` if refused, and ``BadInput`` for a locked key."""
        import paramiko

        agent = None
        with contextlib.suppress(OSError, ValueError, paramiko.SSHException):
            agent = self._agent()
        try:
            for key in self._keys(agent.get_keys() if agent is not None else ()):
                if self._accepted(transport, transport.auth_publickey, key):
                    return
            for password in self._passwords(transport):
                if self._accepted(transport, transport.auth_password, password):
                    return
        finally:
            if agent is not None:
                agent._close()
        if self._locked and self._ask is None:
            raise BadInput(
                f"The private key {self._locked[0]} has a passphrase, and there is no terminal to ask on: load it into "
                f"the agent (ssh-add {self._locked[0]})."
            )
        raise paramiko.AuthenticationException("no key or password was accepted")

    def _agent(self) -> Any:
        """The agent, if there is to be one. Raises ``OSError`` and paramiko's errors."""
        from paramiko.agent import Agent, AgentSSH

        place = self._place.agent
        if place is None or place == "none":
            return Agent() if place is None else None
        line, agent = socket.socket(socket.AF_UNIX), AgentSSH()
        line.connect(place)
        agent._connect(line)
        return agent

    def _accepted(self, transport: Any, log_in: Callable[[str, Any], list[str]], secret: Any) -> bool:
        """Whether that completed the login; False too where a second way must follow."""
        import paramiko

        try:
            return not log_in(self._place.user, secret)
        except paramiko.SSHException:
            if not transport.is_active():
                raise
            return False

    def _keys(self, held: Any) -> Iterator[Any]:
        """The keys to try, in order; those that the agent holds are not read from their files."""
        place, agent = self._place, {key.asbytes(): key for key in held}
        named = place.identities if place.identity is None else (place.identity,)
        yield from self._from_files(named, agent)
        if not place.only:
            yield from agent.values()
        if not named:
            yield from self._from_files([Path(name).expanduser() for name in DEFAULT_KEYS], agent)
        if self._ask is None:
            return
        for path in self._locked:
            for _ in range(TRIES):
                with contextlib.suppress(ValueError):
                    yield _read_key(path, self._ask(f"Passphrase of {path}: "))
                    break

    def _from_files(self, paths: Any, agent: dict[bytes, Any]) -> Iterator[Any]:
        for path in paths:
            if path != self._place.identity and not path.is_file():
                continue  # as ssh: the configuration may name keys of other machines
            try:
                public = _public(path.read_bytes())
                key = agent.pop(public, None) if public else None
                yield key if key is not None else _read_key(path, None)
            except OSError as error:
                self._refuse(path, f"The private key {path} cannot be read: {reason(error)}. Correct its path.")
            except _Locked:
                self._locked.append(path)
            except ValueError as error:
                self._refuse(path, f"{path} is {error}. Give the private key that the board knows.")

    def _refuse(self, path: Path, why: str) -> None:
        """An error in the one key that was asked for; another is left out."""
        if path == self._place.identity:
            raise BadInput(why)

    def _passwords(self, transport: Any) -> Iterator[str]:
        import paramiko

        if self._password is not None:
            yield self._password
        elif self._ask is not None and self._place.identity is None:
            try:
                transport.auth_none(self._place.user)
            except paramiko.BadAuthenticationType as error:
                if {"password", "keyboard-interactive"} & set(error.allowed_types):
                    yield self._ask(f"Password of {self._place}: ")


class _Locked(Exception):
    """A key with a passphrase."""


def _read_key(path: Path, passphrase: str | None) -> Any:
    """The key in a file. Raises ``_Locked`` if it has a passphrase, ``ValueError`` if it is none or that is wrong."""
    import paramiko

    text = path.read_bytes()
    if b"PRIVATE KEY-----" not in text:
        raise ValueError("no private key of OpenSSH or PEM (puttygen -O private-openssh converts one of PuTTY)")
    if b" OPENSSH PRIVATE KEY-----" not in text:  # paramiko does not read PKCS#8
        text = _as_openssh(text, passphrase)
    for kind in (paramiko.Ed25519Key, paramiko.ECDSAKey, paramiko.RSAKey):
        try:
            key = kind.from_private_key(io.StringIO(text.decode("ascii")), passphrase)
        except paramiko.PasswordRequiredException:
            raise _Locked from None
        except (ValueError, IndexError, paramiko.SSHException) as error:
            problem = str(error)
            continue
        certificate = Path(f"{path}-cert.pub")
        if certificate.is_file():
            key.load_certificate(str(certificate))
        return key
    raise ValueError(problem)


def _as_openssh(text: bytes, passphrase: str | None) -> bytes:
    """A PEM key in OpenSSH's format, open. Raises ``_Locked`` if its passphrase is missing, else ``ValueError``."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives import serialization as form

    try:
        try:
            key = form.load_pem_private_key(text, passphrase.encode() if passphrase else None)
        except TypeError:  # also for a passphrase of a key that has none
            if passphrase is None:
                raise _Locked from None
            key = form.load_pem_private_key(text, None)
        return key.private_bytes(form.Encoding.PEM, form.PrivateFormat.OpenSSH, form.NoEncryption())
    except UnsupportedAlgorithm as error:
        raise ValueError(str(error)) from None


def _public(private: bytes) -> bytes | None:
    """The public key in an OpenSSH private key, which is there in clear; None for another format."""
    import paramiko

    with contextlib.suppress(ValueError, IndexError):
        body = base64.b64decode(b"".join(private.split(b"-----")[2].split()))
        if body.startswith(_OPENSSH):
            message = paramiko.Message(body[len(_OPENSSH) :])
            for _ in range(3):  # cipher, how its key is derived, and with what
                message.get_string()
            message.get_int()  # how many keys
            return message.get_string()
    return None
