"""The command line, as the tests of the commands have it."""

from tests.trainer.cli.conftest import edgeveil

__all__ = ["edgeveil"]
