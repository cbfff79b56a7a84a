"""``helper:/PATH``: frames that a program of the board's owner writes to its standard output (``raw``).

So a vendor's SDK stays out of the inside. The program runs in the process that brings the camera's frames: as a user of
its own, without a network, with no file that it could write to. Its environment has ``EDGEVEIL_SHAPE`` (480x640x1),
``EDGEVEIL_DTYPE`` (uint16) and, of depth, ``EDGEVEIL_UNIT_MM``.
"""

import os
import shlex
import stat
import subprocess
from typing import Any

from edgeveil.edge_runtime.errors import BadInput, Disconnected, Unsupported
from edgeveil.edge_runtime.sandbox import hardening
from edgeveil.edge_runtime.sources.base import Camera, Freshness, Sensor
from edgeveil.edge_runtime.sources.raw import RawFrames

END_S = 2.0  # what a helper has to end after SIGTERM


class HelperSource(Camera):
    """The program and its arguments, as a shell splits them; no shell runs."""

    schemes = ("helper",)
    forms = ("helper:/opt/PROGRAM", "helper:/opt/PROGRAM ARGUMENTS")
    help = (
        "a program of yours that writes frames in the bundle's shape and type, little-endian, to its standard output; "
        "it has no network and writes no file, but it may reach sockets in the file system and the board's serial "
        "ports; neither it nor a folder above it may be writable for others"
    )
    apart = True
    quiet = True
    program = True
    devices = ("char-usb_device", "char-video4linux", "char-i2c", "char-spi", "char-ttyUSB", "char-ttyACM")
    groups = ("usb_group",)

    def __init__(self, where: str, spec: Sensor) -> None:
        try:
            self._words = shlex.split(where)
        except ValueError:
            self._words = []
        if not self._words or not os.path.isabs(self._words[0]):
            raise BadInput("expected helper:/PATH/OF/A/PROGRAM, with its arguments; got {!r}".format("helper:" + where))
        super(HelperSource, self).__init__("helper " + self._words[0], spec)
        self.freshness = Freshness(self.name, float("inf"))
        self._program: Any = None
        self._start(where)

    def _open(self, where: str) -> None:  # noqa: ARG002 - split above
        path = self._words[0]
        _check(path)
        shape = "x".join(map(str, self._spec["shape"]))
        environment = dict(os.environ, EDGEVEIL_SHAPE=shape, EDGEVEIL_DTYPE=str(self._spec["dtype"]))
        if self._spec.get("unit_mm"):
            environment["EDGEVEIL_UNIT_MM"] = "{:g}".format(self._spec["unit_mm"])
        try:
            self._program = subprocess.Popen(  # noqa: S603 - the owner named it
                self._words,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,  # its words could hold anything
                env=environment,
                preexec_fn=hardening.end_with_parent,
            )
        except OSError as error:
            raise Unsupported("{} does not start: {}".format(self.name, (error.strerror or "").lower())) from None
        self._frames = RawFrames(self._program.stdout.fileno(), self.name, self._spec)

    def _read(self) -> Any:
        try:
            frame = self._frames.read()
        except EOFError as error:
            code = self._program.wait()
            how = "with exit code {}".format(code) if code >= 0 else "by signal {}".format(-code)
            part = ", in a frame: {}".format(error) if str(error) else ""
            raise Disconnected("{} ended {}{}".format(self.name, how, part)) from None
        if frame is None:
            raise self._stalled()
        return frame

    def close(self) -> None:
        """End the program."""
        program, self._program = self._program, None
        if program is None:
            return
        program.terminate()
        try:
            program.wait(END_S)
        except subprocess.TimeoutExpired:
            program.kill()
            program.wait()
        program.stdout.close()


def _check(path: str) -> None:
    """Raise ``Unsupported`` where the program is none, or others than root and this user may change or replace it."""
    place = path = os.path.realpath(path)
    while True:
        try:
            facts = os.stat(place)
        except OSError as error:
            raise Unsupported("there is no helper at {} ({})".format(path, (error.strerror or "").lower())) from None
        # In a sticky folder, such as /tmp, users cannot replace each other's files.
        replaceable = facts.st_mode & 0o022 and not (stat.S_ISDIR(facts.st_mode) and facts.st_mode & stat.S_ISVTX)
        if facts.st_uid not in (0, os.geteuid()) or replaceable:
            raise Unsupported(
                "{} can be changed by other users: make it root's, and writable for root alone".format(place)
            )
        if place == path and not (stat.S_ISREG(facts.st_mode) and os.access(path, os.X_OK)):
            raise Unsupported("expected a program that this user may run at {}: chmod 755 it".format(path))
        if place == os.path.dirname(place):
            return
        place = os.path.dirname(place)
