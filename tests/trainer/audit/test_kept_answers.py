"""What an audit that is broken off keeps, and who may go on with it."""

import os

import numpy as np
import pytest

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.audit.document import kept_answers


def audited(folder, name="a", fails=None):
    """An audit of one attack, or one that fails after it; how many answers there were before."""
    with kept_answers(folder) as journal:
        before = len(journal)
        folder.mkdir(exist_ok=True)
        np.savez(folder / f"{name}.npz", x=np.zeros(1))
        if fails is not None:
            raise fails
    return before


def test_answers_stay_where_it_is_broken_off_and_go_when_it_is_done(tmp_path, capsys):
    folder = tmp_path / "attacks"
    with pytest.raises(KeyboardInterrupt):
        audited(folder, fails=KeyboardInterrupt)
    assert f"Answers of 1 attack are kept in {folder}; the same command continues" in capsys.readouterr().err
    with pytest.raises(ZeroDivisionError):
        audited(folder, name="b", fails=ZeroDivisionError)
    assert f"Continuing an audit that was interrupted: {folder} has answers of 1 attack." in capsys.readouterr().err
    assert audited(folder) == 2
    assert list(tmp_path.iterdir()) == []


def test_two_audits_of_the_same_do_not_mix(tmp_path):
    folder, here = tmp_path / "attacks", rf"being written by edgeveil audit \(process {os.getpid()}\)"
    with kept_answers(folder), pytest.raises(BadInput, match=here):
        audited(folder)
