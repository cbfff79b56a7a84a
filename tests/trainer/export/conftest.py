"""What the tests of exports share."""

import pytest

from tests.support.export_runs import prgan_run


@pytest.fixture(scope="session")
def run(tmp_path_factory):
    """A finished run of digits with made-up weights; no test changes it."""
    return prgan_run(tmp_path_factory.mktemp("prgan") / "run")
