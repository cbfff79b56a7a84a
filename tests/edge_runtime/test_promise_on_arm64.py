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
BY_DAY = "k-rr"  # one shows the whole way; the others go it at night


@pytest.fixture(scope="module")
def board(tmp_path_factory):
    """The userland with the runtime and an empty ledger; and the mechanisms that ran there, to be added to."""
    folder = tmp_path_factory.mktemp("promised")
    np.savez(folder / "in.npz", x=np.tile(READING, (FRAMES, 1)))
    with emulated_boards.board("userland") as up:
        put(up, {"edge.pyz": zipapp_bytes(), "in.npz": (folder / "in.npz").read_bytes()})
        # A userland that was never booted has no identifier; a ledger belongs to a machine.
        up.run("[ -s /etc/machine-id ] || tr -d - < /proc/sys/kernel/random/uuid > /etc/machine-id")
        up.run(f"python3 {PLACE}/edge.pyz ledger new {PLACE}/ledger")
        yield up, []


def put(up, files):
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for name, data in files.items():
            entry = tarfile.TarInfo(f"{PLACE}/{name}")
            entry.size, entry.mode = len(data), 0o644
            archive.addfile(entry, io.BytesIO(data))
    up.run("tar -C / -xf -", data=packed.getvalue())


@pytest.mark.parametrize(
    "op", [pytest.param(op, marks=() if op == BY_DAY else pytest.mark.nightly) for op in local_examples.OPS]
)
def test_its_reports_are_those_of_this_machine_and_the_ledger_there_charged_them(board, op, tmp_path):
    up, ran = board
    manifest, members = local_examples.example(op)
    manifest["spending"]["most_micro_epsilon"] = 10**12
    made = bundles.make_bundle(tmp_path, example=(manifest, members))
    trusted = (made.trust / "test.pub").read_bytes()
    put(up, {f"{op}/test.veil": made.path.read_bytes(), f"{op}/trust/test.pub": trusted})
    with np.load(io.BytesIO(up.run(RUN.format(place=PLACE, op=op)).stdout)) as out:
        sent = out["x"].reshape(FRAMES, -1)
    ran.append(op)
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
    said = up.run(f"python3 {PLACE}/edge.pyz ledger show {PLACE}/ledger --json").stdout.decode()
    assert f'"lifetime_epsilon": {float(FRAMES * len(ran))}' in said
