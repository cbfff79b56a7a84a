"""A flash with a wrong source or sink is refused before the board is asked anything."""

import pytest

from edgeveil.devices.flashing.connection import Connection
from edgeveil.devices.flashing.flash import flash_target
from edgeveil.devices.flashing.records import Wanted
from edgeveil.edge_runtime.errors import BadInput
from tests.support import bundles


@pytest.mark.parametrize(
    ("wanted", "sensor", "said"),
    [
        (Wanted("cam:0", ("npz:o.npz",)), "camera", "Did you mean camera:?"),
        (Wanted("camera:0", ("mqqt://broker/hall",)), "camera", "Did you mean mqtt://?"),
        (Wanted("kinect:", ("npz:o.npz",)), "camera", "this bundle is for pictures of a camera"),
        (Wanted("kinect:", ("npz:o.npz",)), None, "it could use none"),
        (
            Wanted("camera:0", ("v4l2:/dev/video10",)),
            "camera",
            "/dev/video10 needs a device, and the service that sends",
        ),
    ],
)
def test_a_wrong_place_is_refused_before_the_board_is_asked(tmp_path, wanted, sensor, said):
    manifest, members = bundles.numpy_example()
    if sensor is not None:
        manifest["input"]["sensor"] = sensor
    made = bundles.make_bundle(tmp_path, example=(manifest, members))
    with pytest.raises(BadInput) as refused:
        flash_target(
            made.path, "ssh://nobody@host.invalid", Connection(), "workstation", trust=made.trust, wanted=wanted
        )
    assert said in str(refused.value)
