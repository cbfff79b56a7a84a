"""What commands load, and print, line by line against the forms that are allowed; with and without a terminal."""

import json
import os
import pty
import re
import subprocess
import sys

import pytest

from edgeveil.trainer.cli.main import app, main
from tests.support.checkout import PACKAGES, ROOT

# A title, how much is done, seconds, what runs, the time left, figures: without a terminal a line every 10 s and one at
# the end.
PROGRESS = r"[\w '-]+: \d+/\d+, \d+ s(, [^,]+ for \d+ s)?(, \d+ to \d+ s left)?(  [a-z_ ]+ -?[\d.e+-]+)*"
# Escape sequences of a terminal: colours, and where to write.
_ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
# Runs each command line of stdin; writes what each ended with, and the packages that are loaded by then.
_EACH = """
import json, os, sys
from edgeveil.trainer.cli.main import app, main
lines, found, out = json.load(sys.stdin), [], os.dup(1)
os.dup2(2, 1)
for words in lines:
    sys.argv = ["edgeveil", *words]
    try:
        main()
    except SystemExit as ended:
        found.append([ended.code, sorted({name.partition(".")[0] for name in sys.modules})])
os.write(out, json.dumps(found).encode())
"""


def command(*words, **environment):
    """A Python module or script (``words``) to its end; the completed process with stdout and stderr as text."""
    return subprocess.run(
        [sys.executable, *map(str, words)],
        env=_environment(environment),
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


def in_process(monkeypatch, capture):
    """A function that runs ``edgeveil`` in this process and returns (exit code, stdout, stderr).

    ``capture`` is pytest's ``capsys``, or ``capfd`` where other processes print, too.
    """

    def run(*words):
        monkeypatch.setattr(sys, "argv", ["edgeveil", *map(str, words)])
        with pytest.raises(SystemExit) as ended:
            main()
        said = capture.readouterr()
        return ended.value.code, said.out, said.err

    return run


def edgeveil(*words):
    """A command of ``edgeveil`` in this process; its errors come out as they are."""
    app([str(word) for word in words], standalone_mode=False)


def on_terminal(*words, **environment):
    """The same with a terminal for stderr: exit code and all that was written to the terminal."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, *map(str, words)],
        env=_environment({"TERM": "xterm", "COLUMNS": "120", **environment}),
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=theirs,
    )
    os.close(theirs)
    written = b""
    while True:
        try:
            piece = os.read(ours, 4096)
        except OSError:  # nobody has the other end any more
            break
        if not piece:
            break
        written += piece
    os.close(ours)
    return process.wait(), written.decode()


def seen(written):
    """The lines that a terminal shows of ``written``, each as it was written last."""
    plain = _ESCAPE.sub("", written).replace("\r\n", "\n")
    return [line.rpartition("\r")[2].rstrip() for line in plain.split("\n")]


def strange(lines, *forms):
    """Those of ``lines`` (a list, or a text) that are not empty and match none of the regular expressions ``forms``."""
    lines = lines.splitlines() if isinstance(lines, str) else lines
    allowed = re.compile("|".join(f"(?:{form})" for form in forms))
    return [line for line in lines if line.strip() and not allowed.fullmatch(line)]


def packages_after(lines, folder, **environment):
    """Run command lines of ``edgeveil`` in one process in ``folder``: (exit code, packages loaded by then) of each."""
    done = subprocess.run(
        [sys.executable, "-c", _EACH],
        input=json.dumps([[str(word) for word in words] for words in lines]),
        env=_environment({"PYTHONPATH": str(PACKAGES), **environment}),
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    found = [(code, set(names)) for code, names in json.loads(done.stdout)]
    assert len(found) == len(lines), done.stderr
    return found


def _environment(changes):
    # A machine's own settings would hide what a user sees.
    kept = {k: v for k, v in os.environ.items() if k not in ("TF_CPP_MIN_LOG_LEVEL", "PYTHONWARNINGS")}
    return {**kept, **changes}
