"""A secret's file is read where its owner alone may read it."""

import pytest

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.sealing import keys


def test_the_bytes_of_a_file_or_what_to_do_without_it(tmp_path):
    (tmp_path / "key").write_bytes(b"secret")
    assert keys.read_secret(tmp_path / "key", what="The key", cure="Make one.") == b"secret"
    with pytest.raises(BadInput, match=r"^The key .*other cannot be read: No such file or directory\. Make one\.$"):
        keys.read_secret(tmp_path / "other", what="The key", cure="Make one.")


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620])
def test_a_file_that_others_may_open_is_refused(tmp_path, mode):
    path = tmp_path / "key"
    path.touch(mode=0o600)
    keys.refuse_shared(path, what="The key")
    path.chmod(mode)
    with pytest.raises(BadInput, match=rf"can be read by others \(mode {mode:o}; 600 was expected\)"):
        keys.refuse_shared(path, what="The key")
