"""Converters print past ``sys.stdout``; what they say is shown only where they fail, and never on stdout."""

import gc
import os
import signal
import tempfile

import pytest

from edgeveil.trainer import tensorflow_quiet
from edgeveil.trainer.tensorflow_quiet import SHOWN_BYTES, quiet
from tests.support import output


def test_nothing_comes_out_of_a_block_that_ends_well(capfd):
    print("before")
    with quiet():
        print("from Python")
        os.write(1, b"from C++ on stdout")
        os.write(2, b"from C++ on stderr")
    print("after")
    assert capfd.readouterr() == ("before\nafter\n", "")


def fail():
    os.write(1, b"x" * 2 * SHOWN_BYTES)
    print("the reason", end="")
    raise ValueError("converter")


def test_the_end_of_it_goes_to_stderr_where_the_block_fails(capfd):
    with pytest.raises(ValueError, match="converter"), quiet():
        fail()
    out, error = capfd.readouterr()
    assert out == ""
    assert error.endswith("the reason")
    assert len(error) == SHOWN_BYTES


def test_a_crash_shows_what_was_said_before_it():
    """An assertion of the converter's C++ ends the process, and Python has no say in it any more."""
    done = output.command(
        "-c",
        "import os; from edgeveil.trainer.tensorflow_quiet import quiet\n"
        "with quiet(): os.write(2, b'LLVM ERROR: the reason'); os.abort()",
    )
    assert done.returncode == -signal.SIGABRT
    assert done.stderr == "LLVM ERROR: the reason"


def test_a_block_that_ends_well_leaves_no_file_behind(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with quiet():
        assert len(list(tmp_path.iterdir())) == 1
    assert list(tmp_path.iterdir()) == []


WARNS = """
import warnings
from edgeveil.trainer.tensorflow_quiet import quiet_process
quiet_process()
warnings.warn("x")
"""


def test_a_command_shows_python_warnings_to_those_who_ask():
    assert output.command("-c", WARNS).stderr == ""
    assert "UserWarning: x" in output.command("-W", "default", "-c", WARNS).stderr


STARTS = """
import sys, {before}
from edgeveil.trainer import tensorflow_quiet
{command}
tensorflow_quiet.load_tensorflow()
print(sorted({{name.partition(".")[0] for name in sys.modules}} & {{*tensorflow_quiet.UNUSED}}))
import matplotlib.pyplot, sklearn
"""


@pytest.mark.parametrize(
    ("before", "command", "loaded"),
    [
        ("os", "tensorflow_quiet.quiet_process()", "[]"),
        ("sklearn", "tensorflow_quiet.quiet_process()", "['pandas', 'scipy', 'sklearn']"),
        ("os", "", "'matplotlib'"),
    ],
)
def test_a_command_starts_tensorflow_without_what_it_never_asks_keras_for(before, command, loaded):
    done = output.command("-c", STARTS.format(before=before, command=command))
    assert (done.returncode, loaded in done.stdout) == (0, True), done.stdout + done.stderr


@pytest.mark.parametrize("collects", [True, False])
def test_no_garbage_is_collected_while_tensorflow_is_imported(monkeypatch, collects):
    seen = []

    def imported(name):
        seen.append((name, gc.isenabled()))
        return type("TensorFlow", (), {"get_logger": staticmethod(lambda: type("L", (), {"setLevel": print})())})

    monkeypatch.setattr(tensorflow_quiet.importlib, "import_module", imported)
    monkeypatch.delitem(tensorflow_quiet.sys.modules, "tensorflow", raising=False)
    was, frozen = gc.isenabled(), gc.get_freeze_count()
    try:
        (gc.enable if collects else gc.disable)()
        tensorflow_quiet.load_tensorflow()
        assert (seen, gc.isenabled()) == ([("tensorflow", False)], collects)
        assert gc.get_freeze_count() > frozen
    finally:
        gc.unfreeze()
        (gc.enable if was else gc.disable)()
