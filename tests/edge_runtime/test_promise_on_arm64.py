"""A bundle of each mechanism in the userland of an arm64 board: its promise is checked, charged and kept there too."""

import io
import tarfile

import numpy as np
import pytest
from scipy import stats

from edgeveil.devices.zipapp import zipapp_bytes
from tests.support import bundles
from tests.support.boards import emulated_boards
from tests.support.promised import local_examples

pytestmark = [pytest.mark.boards, pytest.mark.slow, pytest.mark.programs]

PLACE, FRAMES = "/srv/promised", 2000
READING = np.array([16, 0, 4, 12], np.uint8)
RUN = (
    "cd {place}/{op} && python3 ../edge.pyz run test.veil --trust trust --source npz:../in.npz --sink npz:out.npz "
    "--ledger ../ledger >&2 && cat out.npz"
)


@pytest.fixture(scope="module")
def board(tmp_path_factory):
    """The userland with the runtime, a bundle of each mechanism, and an empty ledger."""
    folder = tmp_path_factory.mktemp("promised")
    files = {"edge.pyz": zipapp_bytes()}
    for op in local_examples.OPS:
        manifest, members = local_examples.example(op)
        manifest["spending"]["most_micro_epsilon"] = 10**12
        made = bundles.make_bundle(folder / op, example=(manifest, members))
        files[f"{op}/test.veil"] = made.path.read_bytes()
        files[f"{op}/trust/test.pub"] = (made.trust / "test.pub").read_bytes()
    np.savez(folder / "in.npz", x=np.tile(READING, (FRAMES, 1)))
    files["in.npz"] = (folder / "in.npz").read_bytes()
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for name, data in files.items():
            entry = tarfile.TarInfo(f"{PLACE}/{name}")
            entry.size, entry.mode = len(data), 0o644
            archive.addfile(entry, io.BytesIO(data))
    with emulated_boards.board("userland") as up:
        up.run("tar -C / -xf -", data=packed.getvalue())
        # A userland that nobody booted has none; a ledger belongs to a machine.
        up.run("[ -s /etc/machine-id ] || tr -d - < /proc/sys/kernel/random/uuid > /etc/machine-id")
        up.run(f"python3 {PLACE}/edge.pyz ledger new {PLACE}/ledger")
        yield up


@pytest.mark.parametrize("op", local_examples.OPS)
def test_its_reports_are_those_of_this_machine(board, op):
    with np.load(io.BytesIO(board.run(RUN.format(place=PLACE, op=op)).stdout)) as out:
        sent = out["x"].reshape(FRAMES, -1)
    parts, tables = local_examples.document(op, 1.0, 4)
    here = local_examples.pipeline(parts, tables).run(np.tile(READING, (FRAMES, 1)))["report"].reshape(FRAMES, -1)
    # The noise is the operating system's: one run in ten million fails for nothing.
    for there, mine in zip(sent.T, here.T, strict=True):
        values = np.unique(np.concatenate([there, mine]))
        if len(values) > 8:
            p = stats.ks_2samp(there, mine).pvalue
        else:
            counts = np.array([[np.sum(part == value) for value in values] for part in (there, mine)])
            p = stats.chi2_contingency(counts).pvalue if len(values) > 1 else 1.0
        assert p > 1e-7


def test_the_ledger_there_has_charged_all_of_it(board):
    said = board.run(f"python3 {PLACE}/edge.pyz ledger show {PLACE}/ledger --json").stdout.decode()
    assert f'"lifetime_epsilon": {float(FRAMES * len(local_examples.OPS))}' in said
