"""What the settings of a device must say for a bundle that reports gradients."""

from edgeveil.edge_runtime.config import Settings
from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.ipc.rounds import RoundFormat
from edgeveil.edge_runtime.manifest.manifest import Manifest

FILES = ("csv", "arff", "npz")


def check_gradients(settings: Settings, manifest: Manifest) -> None:
    """Raise ``BadInput`` where these settings do not suit a bundle that reports gradients."""
    if RoundFormat.of(manifest) is None:
        return
    if manifest.counts is not None:
        raise BadInput(
            "expected a bundle that reports gradients or counts people, not both: a training takes lines of a file, "
            "and people are counted in a live source. Make a bundle for each"
        )
    if settings.model is None:
        raise BadInput(
            "expected --model mqtt://HOST/TOPIC: this bundle reports the gradients of a training, and hears there of "
            "each round's parameters (edgeveil federate)"
        )
    kind = settings.source.partition(":")[0]
    if kind not in FILES or settings.realtime or settings.repeat:
        raise BadInput(
            "expected csv:, arff: or npz: as the source of a training, where each line is used once; got {}:".format(
                kind
            )
        )
    if settings.subject_column is not None and (manifest.spending is None or manifest.spending.unit == "release"):
        raise BadInput(
            "expected a bundle that counts what it tells of each subject with --subject-column; this one counts every "
            "release alike. Leave the option and the column out."
        )
