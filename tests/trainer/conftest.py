"""The command line as a user has it: words in; exit code, stdout and stderr out."""

import pytest

from edgeveil.trainer.cli import main


@pytest.fixture
def edgeveil(monkeypatch, capsys):
    def run(*words):
        monkeypatch.setattr("sys.argv", ["edgeveil", *map(str, words)])
        with pytest.raises(SystemExit) as ended:
            main.main()
        said = capsys.readouterr()
        return ended.value.code, said.out, said.err

    return run
