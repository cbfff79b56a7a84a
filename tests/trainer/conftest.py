"""The command line as a user has it: words in; exit code, stdout and stderr out."""

import pytest

from tests.support import output


@pytest.fixture
def edgeveil(monkeypatch, capsys):
    return output.in_process(monkeypatch, capsys)
