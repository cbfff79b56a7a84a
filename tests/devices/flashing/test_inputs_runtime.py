"""What a first flash runs as root on a board is the toolkit's own runtime, never that of a signing key's bundle."""

from edgeveil.devices.flashing.inputs import read_inputs
from edgeveil.devices.zipapp import zipapp_bytes
from tests.support import bundles


def test_the_runtime_that_is_sent_is_the_toolkits_own(tmp_path):
    made = bundles.make_bundle(tmp_path)
    inputs = read_inputs(made.path, "workstation", made.trust, None)
    assert made.members["runtime/edgeveil-edge.pyz"] != zipapp_bytes()
    assert inputs.bundle.runtime == zipapp_bytes()
