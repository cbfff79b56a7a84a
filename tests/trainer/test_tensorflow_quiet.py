"""Converters print past ``sys.stdout``; what they say is shown only where they fail, and never on stdout."""

import os

import pytest

from edgeveil.trainer.tensorflow_quiet import SHOWN_BYTES, quiet


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
