"""Bundles that 0.1 (commit 7cc15159) and 0.2 (commit baecb1ef) sealed run today to the same bits.

``old_bundles/NAME.npz`` has the readings ``x`` and the records that the runtime of that commit sent of them, with the
system's entropy replaced as here and reference kernels: a request of n bytes is answered by the same n bytes each time,
so that the order of the draws does not matter; only a loop that throws draws away gets new ones.
"""

import hashlib
import itertools
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

FOLDER = Path(__file__).with_name("old_bundles")
NAMES = sorted(path.stem for path in FOLDER.glob("*.veil"))


@pytest.fixture(scope="module")
def sent(tmp_path_factory):
    """The folder with the records that each old bundle sends; one process for all of them."""
    out = tmp_path_factory.mktemp("sent")
    subprocess.run([sys.executable, __file__, out], check=True, capture_output=True, timeout=120)
    return out


def test_every_family_of_stages_is_there():
    assert len(NAMES) >= 19


@pytest.mark.parametrize("name", NAMES)
def test_an_old_bundle_sends_what_it_sent(name, sent):
    with np.load(FOLDER / f"{name}.npz") as then, np.load(sent / f"{name}.npz") as now:
        assert {f"out_{key}" for key in now.files} | {"x"} == set(then.files)
        for key in now.files:
            assert now[key].dtype == then[f"out_{key}"].dtype
            # Of a product of matrices in float32 the last bits depend on the processor, by numpy's BLAS.
            last_bits = 4 * np.finfo(np.float32).eps if name.endswith("cleaner") else 0.0
            np.testing.assert_allclose(now[key], then[f"out_{key}"], rtol=0, atol=last_bits)


def _send_all(out):
    system, numbers = os.urandom, {}

    def urandom(size):
        caller = sys._getframe(1).f_code
        if Path(caller.co_filename).parent.name not in ("stages", "pipeline"):
            return system(size)
        places = numbers["of this bundle"] if caller.co_name == "accepted" else itertools.count(0, 32)
        blocks = (hashlib.sha256(b"old %d" % next(places)).digest() for _ in range(0, size, 32))
        return b"".join(blocks)[:size]

    os.urandom = urandom  # before the runtime is imported: it is a default of its functions
    from edgeveil.edge_runtime.backends.base import Backend
    from edgeveil.edge_runtime.cli.main import main

    Backend.__init__.__kwdefaults__["kernels"] = "reference"

    sys.path.insert(0, str(Path(__file__).parents[2]))
    from tests.support import machine_identifier

    machine_identifier.use()
    trust = Path(out, "trust")
    trust.mkdir()
    (trust / "test.pub").write_bytes((FOLDER / "test.pub").read_bytes())
    for name in NAMES:
        source, ledger = Path(out, "x.npz"), str(Path(out, f"{name}.ledger"))
        with np.load(FOLDER / f"{name}.npz") as recorded:
            np.savez(source, x=recorded["x"])
        assert main(["ledger", "new", ledger]) == 0
        words = ["run", str(FOLDER / f"{name}.veil"), "--trust", str(trust), "--source", f"npz:{source}"]
        words += ["--sink", f"npz:{Path(out, name)}.npz"]
        if name.endswith("-tiny"):
            words += ["--artefact", "tflite-int8"]
        if "-report-" in name:
            words += ["--ledger", ledger]
        numbers["of this bundle"] = itertools.count(1)
        assert main(words) == 0, name


if __name__ == "__main__":
    _send_all(sys.argv[1])
