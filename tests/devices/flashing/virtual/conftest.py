"""What the tests on the virtual board share: the command line, and that they are asked for."""

import os
import sys

import pytest

from edgeveil.trainer.cli.main import main


@pytest.fixture(autouse=True)
def _asked_for():
    if "EDGEVEIL_VIRTUAL_BOARD" not in os.environ:
        pytest.skip("THE VIRTUAL BOARD WAS NOT BOOTED: it takes minutes; set EDGEVEIL_VIRTUAL_BOARD=1 for it")


@pytest.fixture
def edgeveil(monkeypatch, capfd):
    """Runs ``edgeveil``, which has to end with ``code``; returns what it printed, or its error."""

    def run(*arguments, code=0):
        monkeypatch.setattr(sys, "argv", ["edgeveil", *(str(a) for a in arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        out = capfd.readouterr()
        assert ended.value.code == code, out.err
        return out.err if code else out.out

    return run
