"""Each process of a service reads and verifies its trust once, however much depends on it."""

import collections
import json
import re
import subprocess
import sys

import pytest

from edgeveil.edge_runtime.bundle.trust_store import update_policy
from edgeveil.edge_runtime.ext.ledger.book import create
from tests.edge_runtime.bundle.signed_trust import device, policy_file, trust_file
from tests.support import bundles, programs
from tests.support.promised.counting_bundle import counting_example

pytestmark = pytest.mark.programs

EPSILON = 10**8
NOISE = {"micro_epsilon": EPSILON, "most_each": 3, "most_micro_epsilon": 2 * EPSILON}
SPENDING = {"micro_epsilon": 10**10, "unit": "release", "most_micro_epsilon": 10**14, "period_s": None}
POLICY = {"schema": 1, "hide": [], "spend": {"most_epsilon": 10**6, "period_s": 86400}}
FILES = ["policy-signed.json", "policy.json", "root.pub", "trust.json"]


@pytest.fixture
def service(tmp_path):
    """The command line of a service with spending and noised counts under an owner's policy."""
    manifest, members = counting_example(noise=NOISE)
    made = bundles.make_bundle(tmp_path / "b", example=({**manifest, "spending": SPENDING}, members))
    trust = device(tmp_path / "trust", trust_file(1))
    update_policy(str(trust), policy_file(1, POLICY))
    create(str(tmp_path / "ledger"))
    words = ["run", str(made.path), "--trust", str(trust), "--source", "simulate:depth?seed=3&people=2&fps=10"]
    words += ["--sink", f"npz:{tmp_path}/out.npz", "--ledger", str(tmp_path / "ledger"), "--health", "off"]
    return [sys.executable, "-m", "edgeveil.edge_runtime", *words, "--duration", "1.5", "--json"]


def test_a_start_reads_the_trust_once_in_each_process(service, tmp_path):
    trace = [programs.need("strace"), "-f", "-qq", "-e", "trace=open,openat", "-e", "signal=none"]
    trace += ["-o", str(tmp_path / "trace")]
    done = subprocess.run([*trace, *service], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["frames_out"] > 0
    opened = collections.defaultdict(list)
    for line in (tmp_path / "trace").read_text().splitlines():
        found = re.match(rf'(\d+) +open(?:at)?\(.*"{re.escape(str(tmp_path))}/trust/([^"]+)".* = \d+$', line)
        if found:
            opened[found.group(1)].append(found.group(2))
    assert [sorted(names) for names in opened.values()] == [FILES, FILES]
