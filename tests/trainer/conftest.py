"""The command line as a user has it: words in; exit code, stdout and stderr out."""

import pytest

from tests.support import output


@pytest.fixture
def edgeveil(monkeypatch, capsys):
    return output.in_process(monkeypatch, capsys)


@pytest.fixture
def few_trees(monkeypatch):
    """A first look at data by a forest of ten trees."""
    from tests.support.trial import short_audit

    short_audit.few_trees(monkeypatch)


@pytest.fixture(scope="module")
def coarse_accountant():
    """Claims of DP-SGD from a coarser grid, which are bounds still, a little larger: in a tenth of the time."""
    from edgeveil.trainer.ext.private import per_example

    with pytest.MonkeyPatch.context() as patch:
        for name in ("GRID", "FINE_GRID"):
            patch.setattr(per_example, name, 10 * getattr(per_example, name))
        yield
    per_example.noise_for.cache_clear()
