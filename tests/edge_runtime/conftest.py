"""The one real bundle that the tests of the runtime share."""

import pytest
import tiny_models


@pytest.fixture(scope="session")
def tiny(tmp_path_factory):
    """A ``bundles.Made`` with four real artefacts of one small generator with noise; takes a few seconds to build."""
    return tiny_models.write(tmp_path_factory.mktemp("tiny"))
