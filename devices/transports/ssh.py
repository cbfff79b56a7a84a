"""SSH by paramiko: host keys are checked, interrupted uploads are resumed, and every upload is read back."""

from __future__ import annotations

import contextlib
import shlex
import socket
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from edgeveil.devices.transports.base import Completed, Progress, already_sent, digest, holds
from edgeveil.edge_runtime.errors import BadInput, DeviceFailed, reason

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
        port: int = 22,
        user: str | None = None,
        identity: Path | None = None,
        known_hosts: Path | None = None,
        password: str | None = None,
    ) -> None:
        import paramiko

        self.name = f"{user}@{host}" if user else host
        self._client = paramiko.SSHClient()
        self._client.set_missing_host_key_policy(paramiko.RejectPolicy())
        try:
            if known_hosts is None:
                self._client.load_system_host_keys()
            else:
                self._client.load_host_keys(str(known_hosts))
        except OSError as error:
            raise BadInput(f"The host keys in {known_hosts} cannot be read: {error.strerror}.") from None
        try:
            if identity is not None:
                identity.read_bytes()
        except OSError as error:
            raise BadInput(f"The private key {identity} cannot be read: {reason(error)}. Correct --identity.") from None
        try:
            self._client.connect(
                host,
                port=port,
                username=user,
                password=password,
                key_filename=None if identity is None else str(identity),
                timeout=CONNECT_S,
                banner_timeout=CONNECT_S,
                auth_timeout=CONNECT_S,
                look_for_keys=identity is None,
                allow_agent=identity is None,
            )
        except paramiko.BadHostKeyException as error:
            raise BadInput(
                f"{host} shows another host key than before ({error.key.get_base64()[:16]}...): another machine may "
                "intercept the connection. If the board was set up anew, remove its old key from known_hosts "
                "(ssh-keygen -R)."
            ) from None
        except paramiko.AuthenticationException:
            raise BadInput(
                f"{self.name} refused the login: wrong user, key or password. Try: ssh -p {port} {self.name}"
            ) from None
        except paramiko.SSHException as error:
            if "not found in known_hosts" in str(error):
                raise BadInput(
                    f"The host key of {host} is unknown. Compare its fingerprint with the board's "
                    f"(ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub), then: ssh-keyscan -p {port} {host} >> "
                    f"{known_hosts or '~/.ssh/known_hosts'}"
                ) from None
            if identity is not None and "private key" in str(error):
                raise BadInput(f"{identity} is {error}. Give the private key that the board knows.") from None
            raise DeviceFailed(f"SSH to {self.name} failed: {error}") from None
        except (OSError, EOFError) as error:
            why = getattr(error, "strerror", None) or type(error).__name__
            raise DeviceFailed(f"There is no answer from {host}, port {port}: {why}. Is the board up?") from None

    def run(self, command: Sequence[str], *, data: bytes = b"", timeout_s: float = 120) -> Completed:
        """Run a command with ``data`` on its stdin. Raises ``DeviceFailed`` on a lost connection or a timeout."""
        with self._failures(command[0]):
            transport = self._client.get_transport()
            if transport is None or not transport.is_active():
                raise EOFError
            channel = transport.open_session(timeout=CONNECT_S)
            channel.settimeout(timeout_s)
            # The remote shell splits the line again, so every part is quoted.
            channel.exec_command(" ".join(shlex.quote(part) for part in command))
            with contextlib.suppress(OSError):  # it may end before it has read all
                channel.sendall(data)
            channel.shutdown_write()
            out, err = _drain(channel, timeout_s)
            code = channel.recv_exit_status()
        if code < 0:
            raise DeviceFailed(
                f"{command[0]} ended on {self.name} without an exit code: it was killed there (out of memory?), or the "
                "connection was lost. Try again."
            )
        return Completed(code, out, err)

    def put(self, data: bytes, path: str, progress: Progress = lambda *_: None) -> None:
        """Write these bytes to ``path``. Raises ``DeviceFailed`` if they do not arrive."""
        if holds(self, path, data):
            progress(len(data), len(data))
            return
        part = f"{path}.{digest(data)[:16]}.part"
        for _ in range(2):
            begin = already_sent(self, part, data)
            with self._failures(f"the upload of {path}"), self._client.open_sftp() as sftp:
                with sftp.open(part, "r+b" if begin else "wb") as file:
                    file.set_pipelined(True)
                    file.seek(begin)
                    for at in range(begin, len(data), BLOCK):
                        file.write(data[at : at + BLOCK])
                        progress(min(at + BLOCK, len(data)), len(data))
                if holds(self, part, data):
                    sftp.posix_rename(part, path)
                    return
                sftp.remove(part)
        raise DeviceFailed(f"{path} came out different on the board twice: its card or its memory is bad.")

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

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
