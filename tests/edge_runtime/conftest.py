"""The real bundles that the tests of the runtime share."""

import os
import tempfile
from pathlib import Path

import pytest

from tests.support.boards import edge_tpu


@pytest.fixture(scope="session")
def tiny(tmp_path_factory):
    """A ``bundles.Made`` with four real artefacts of one small generator with noise; takes a few seconds to build."""
    from tests.support import tiny_models  # loads the exporters

    return tiny_models.write(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="session")
def library(tmp_path_factory):
    """A folder with a libedgetpu.so.1, for LD_LIBRARY_PATH."""
    return edge_tpu.build(tmp_path_factory.mktemp("library"))


@pytest.fixture(scope="session")
def made(tiny, tmp_path_factory):
    """The tiny bundle, and in it what a compiler made of its int8 artefact: every byte complemented."""
    return edge_tpu.bundle(tiny, tmp_path_factory.mktemp("compiled"))


@pytest.fixture
def in_memory():
    """A folder in memory, where the system has one: for tests that write thousands of small files."""
    memory = "/dev/shm"  # noqa: S108 - a folder of our own in it
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as folder:
        yield Path(folder)
