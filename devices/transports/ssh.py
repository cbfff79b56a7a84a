"""SSH by paramiko: host keys are checked, interrupted uploads are resumed, and every upload is read back.

Answers begin with a mark: a login shell may print before it. ``exec`` leaves no shell that could print after it.
"""

from __future__ import annotations

import contextlib
import secrets
import shlex
import socket
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from edgeveil.devices.transports.base import Completed, Progress, already_sent, check, digest, holds
from edgeveil.devices.transports.ssh_login import Ask, Login, Place, known_keys, route
from edgeveil.edge_runtime.errors import BadInput, DeviceFailed

CONNECT_S = 15.0
BLOCK = 32 * 1024


class SshTransport:
    """One SSH connection. Without ``user`` it is the local user's name, as in ssh."""

    python = "python3"
    trusted = True  # an unknown host key is refused

    def __init__(
        self,
        host: str,
        *,
        port: int | None = None,
        user: str | None = None,
        identity: Path | None = None,
        known_hosts: Path | None = None,
        password: str | None = None,
        ask: Ask | None = None,
    ) -> None:
        places = route(host, port=port, user=user, identity=identity, known_hosts=known_hosts)
        self.name = f"{user}@{host}" if user else host
        self._clients: list[Any] = []
        try:
            for place in places:
                self._log_in(place, password if place is places[-1] else None, ask)
        except BaseException:
            self.close()
            raise

    def _log_in(self, place: Place, password: str | None, ask: Ask | None) -> None:
        """Add a client at ``place``, through the last one where there is one. Raises ``BadInput``, ``DeviceFailed``."""
        import paramiko

        client = paramiko.SSHClient()
        client.set_missing_host_key_policy(paramiko.RejectPolicy())
        try:
            entries, revoked = known_keys(filter(Path.exists, place.known_hosts))
        except OSError as error:
            raise BadInput(f"The host keys in {error.filename} cannot be read: {error.strerror}.") from None
        for entry in reversed(entries):  # of two keys of a kind the first counts
            for name in entry.hostnames:
                client.get_host_keys().add(name, entry.key.get_name(), entry.key)
        try:
            line = self._line_to(place)
            self._clients.append(client)
            self._through = f" through {place.name}"
            # With a socket of its own, the name and the port are those that known_hosts is searched for.
            client.connect(
                place.key_name,
                username=place.user,
                sock=line,
                timeout=CONNECT_S,
                banner_timeout=CONNECT_S,
                auth_timeout=CONNECT_S,
                auth_strategy=Login(place, password, ask),
            )
        except paramiko.BadHostKeyException as error:
            raise BadInput(
                f"{place.name} shows another host key than before ({error.key.get_base64()[:16]}...): another machine "
                "may intercept the connection. If the board was set up anew, remove its old key from known_hosts "
                "(ssh-keygen -R)."
            ) from None
        except paramiko.AuthenticationException:
            raise BadInput(
                f"{place} refused the login: wrong user, key or password. Try: ssh -p {place.port} {place}"
            ) from None
        except paramiko.SSHException as error:
            if "not found in known_hosts" in str(error):
                if client.get_transport().get_remote_server_key().asbytes() in revoked:
                    raise BadInput(
                        f"{place.name} shows a host key that known_hosts marks as @revoked: give the board a new one "
                        "(ssh-keygen -A), or take that line out."
                    ) from None
                raise BadInput(
                    f"The host key of {place.name} is unknown. Compare its fingerprint with the board's "
                    "(ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub), then: "
                    f"ssh-keyscan -p {place.port} {place.host} >> {place.known_hosts[0]}"
                ) from None
            raise DeviceFailed(f"SSH to {place} failed: {error}") from None
        except (OSError, EOFError) as error:
            why = getattr(error, "strerror", None) or type(error).__name__
            raise DeviceFailed(
                f"There is no answer from {place.host}, port {place.port}: {why}. Is the board up?"
            ) from None

    def _line_to(self, place: Place) -> Any:
        """A connection to ``place``, through the last client where there is one. Raises ``OSError``."""
        import paramiko

        if not self._clients:
            return socket.create_connection((place.host, place.port), CONNECT_S)
        last = self._clients[-1].get_transport()
        try:
            address = (place.host, place.port)
            return last.open_channel("direct-tcpip", address, ("127.0.0.1", 0), timeout=CONNECT_S)
        except paramiko.ChannelException as error:
            raise OSError(error.code, error.text + self._through) from None

    def run(self, command: Sequence[str], *, data: bytes = b"", timeout_s: float = 120) -> Completed:
        """Run a command with ``data`` on its stdin. Raises ``DeviceFailed`` on a lost connection or a timeout."""
        return self._run(command, command[0], data, timeout_s)

    def _run(
        self,
        command: Sequence[str],
        what: str,
        data: bytes,
        timeout_s: float,
        sent: Callable[[int], None] = lambda _: None,
    ) -> Completed:
        mark = secrets.token_hex(16)
        with self._failures(what):
            transport = self._clients[-1].get_transport()
            if transport is None or not transport.is_active():
                raise EOFError
            channel = transport.open_session(timeout=CONNECT_S)
            channel.settimeout(timeout_s)
            channel.exec_command(_line(command, mark))
            with contextlib.suppress(OSError):  # it may end before it has read all
                for at in range(0, len(data), BLOCK):
                    channel.sendall(data[at : at + BLOCK])
                    sent(min(at + BLOCK, len(data)))
            channel.shutdown_write()
            out, err = _drain(channel, timeout_s)
            code = channel.recv_exit_status()
        if code < 0:
            raise DeviceFailed(
                f"{what} ended on {self.name} without an exit code: it was killed there (out of memory?), or the "
                "connection was lost. Try again."
            )
        printed, separator, out = out.partition(mark.encode())
        if not separator:
            last = Completed(code, printed, err).last_line()
            raise DeviceFailed(f"The login shell on {self.name} ended with code {code} before {what} began: {last}")
        return Completed(code, out, err.partition(mark.encode())[2])

    def put(self, data: bytes, path: str, progress: Progress = lambda *_: None) -> None:
        """Write these bytes to ``path``. Raises ``DeviceFailed`` if they do not arrive.

        By a command's input and not by SFTP: a login shell that prints would garble it, and small systems lack it.
        """
        if holds(self, path, data):
            progress(len(data), len(data))
            return
        part, what = f"{path}.{digest(data)[:16]}.part", f"The upload of {path}"
        for _ in range(2):
            begin = already_sent(self, part, data)
            write = ["sh", "-c", f'cat {">>" if begin else ">"} "$1"', "sh", part]
            check(self._run(write, what, data[begin:], 120, lambda size: progress(begin + size, len(data))), what)  # noqa: B023
            if holds(self, part, data):
                check(self.run(["mv", "-f", part, path]), what)
                return
            self.run(["rm", "-f", part])
        raise DeviceFailed(f"{path} came out different on the board twice: its card or its memory is bad.")

    def close(self) -> None:
        """Close the connection, and those that it goes through."""
        for client in reversed(self._clients):
            client.close()

    @contextlib.contextmanager
    def _failures(self, what: str) -> Any:
        import paramiko

        try:
            yield
        except socket.timeout:
            raise DeviceFailed(f"{what} took too long on {self.name}. It may still be going on there.") from None
        except (OSError, EOFError, paramiko.SSHException) as error:
            why = str(error) or type(error).__name__
            raise DeviceFailed(
                f"The connection to {self.name} was lost during {what}: {why}. Flash again: it resumes."
            ) from None


def _line(command: Sequence[str], mark: str) -> str:
    """The line for the login shell: it prints ``mark`` on both outputs, then becomes the command.

    Every part is quoted, for shells read it twice. It is one line without ``!``, which csh could not read in quotes.
    """
    script = f"printf {mark}; printf {mark} >&2; exec {shlex.join(command)}"
    script = script.replace("\\", r"\\").replace("\n", r"\n").replace("!", r"\0041")
    return f'exec sh -c \'eval "$(printf %b "$1")"\' sh {shlex.quote(script)}'


# A process left behind may hold the outputs open. After the exit code, wait until they are silent for SILENT_S, and
# at most LEFT_OPEN_S.
SILENT_S, LEFT_OPEN_S = 1.0, 5.0


def _drain(channel: Any, timeout_s: float) -> tuple[bytes, bytes]:
    """Both outputs, read in turns, so that neither fills up and blocks the other.

    The remote side closes the channel when the command has ended and all its output was sent. Output may still come
    after the exit code.
    """
    out, err = [], []
    heard = begun = time.monotonic()
    ended = None
    while True:
        # Read before the outputs: if the channel is closed now, they are complete.
        closed, coded = channel.closed, channel.exit_status_ready()
        while channel.recv_ready():
            out.append(channel.recv(BLOCK))
            heard = time.monotonic()
        while channel.recv_stderr_ready():
            err.append(channel.recv_stderr(BLOCK))
            heard = time.monotonic()
        now = time.monotonic()
        if coded and ended is None:
            ended = now
        left_open = ended is not None and (now - max(ended, heard) > SILENT_S or now - ended > LEFT_OPEN_S)
        if closed or left_open:
            return b"".join(out), b"".join(err)
        if ended is None and now - begun > timeout_s:
            raise socket.timeout
        time.sleep(0.005)
