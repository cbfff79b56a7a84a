"""Material for a data protection impact assessment (Art. 35 GDPR), made from a bundle: its card and its manifest.

Numbers are the card's alone. What only the controller can know is marked as to be filled in. What the runtime does
stands with the tests that show it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from edgeveil.edge_runtime import __version__
from edgeveil.edge_runtime.bundle.reader import Bundle
from edgeveil.trainer.audit import board_column
from edgeveil.trainer.audit.text import what_else_sentence
from edgeveil.trainer.recipe.count import leaving
from edgeveil.trainer.report.card_page import environment

_INSIDE, _EDGE = "tests/edge_runtime/inside", "tests/edge_runtime"

# What the runtime keeps, and the tests that show it.
RETAINED = (
    (
        "Raw frames of a live source are held in memory alone, by a process that can write no file, and are "
        "overwritten after use. Not overwritten: copies in the kernel, in drivers, decoders and interpreters, and a "
        "depth camera's model of the floor.",
        (
            f"{_INSIDE}/test_isolation.py::test_no_file_grows_and_no_core_is_left",
            f"{_EDGE}/loop/test_live.py::test_every_frame_comes_out_or_is_counted_and_is_zeros_afterwards",
            f"{_EDGE}/loop/test_live.py::test_nothing_that_was_made_of_a_frame_on_its_way_is_left_in_memory",
        ),
    ),
    (
        "A person's track, where the perturber holds one, is forgotten when it ends.",
        (
            f"{_EDGE}/loop/test_live.py::test_a_track_is_forgotten_after_the_frame_that_shows_its_end_and_before_the_next",
        ),
    ),
    (
        "Logs name events and counts, never a value of a frame. The last events are kept in memory; those of start, "
        "stop and degraded service also go to the system's log.",
        (
            f"{_EDGE}/test_frames.py::test_a_raw_frame_in_a_log_shows_no_value",
            f"{_INSIDE}/test_isolation.py::test_counters_outlive_who_counts_and_hold_words_alone",
        ),
    ),
    (
        "Perturbed records that cannot be delivered wait in memory, or in a folder if one is configured, until they "
        "are delivered, too old, or the space is used up.",
        (
            f"{_EDGE}/sinks/test_network_spool.py::test_what_is_too_old_goes_uncalled",
            f"{_EDGE}/sinks/test_network_spool.py::test_the_oldest_go_first_when_it_is_full",
        ),
    ),
    ("Sinks to files keep what is perturbed until somebody deletes it.", ()),
)

# What happens when something goes wrong, and the tests that show it.
FAIL_CLOSED = (
    (
        "A bundle that is not exactly what a trusted key signed does not run.",
        ("tests/hostile_bundles", f"{_EDGE}/bundle/test_reader.py::test_there_is_no_byte_that_could_be_another"),
    ),
    (
        "A bundle that hides less than the owner's policy asks for does not run.",
        (f"{_EDGE}/bundle/test_policy.py::test_a_device_refuses_at_install_and_at_open",),
    ),
    (
        "The process with the raw frames has no network (a network camera is fetched by another process, which has).",
        (
            f"{_INSIDE}/test_isolation.py::test_no_socket_can_be_made_inside",
            f"{_INSIDE}/test_leaks.py::test_strace_sees_no_socket_inside",
        ),
    ),
    (
        "An error drops the frame; no fault lets a raw one out, and each guard against that is needed.",
        (
            f"{_INSIDE}/test_leaks.py::test_no_fault_lets_a_raw_frame_out",
            f"{_INSIDE}/test_leaks.py::test_each_guard_is_one",
            f"{_EDGE}/test_frames.py::test_a_sink_takes_perturbed_frames_alone",
        ),
    ),
    (
        "An interpreter that computes something else, and a perturber that lets samples through unchanged, stop the "
        "device; what waits to be sent is deleted.",
        (
            f"{_EDGE}/pipeline/test_perturber.py::test_wrong_production_kernels_are_caught",
            f"{_EDGE}/pipeline/test_perturber.py::test_thirty_unchanged_frames_in_a_row_stop_everything_for_good",
            f"{_INSIDE}/test_leaks.py::test_golden_vectors_that_fail_leave_nothing_behind",
        ),
    ),
    (
        "What is sent, and when, is the same with and without a fault.",
        (f"{_EDGE}/outside/test_emission_is_constant.py::test_a_receiver_cannot_tell_a_fault_from_the_schedule",),
    ),
    (
        "After a power cut a board runs a whole old or a whole new release.",
        (f"{_EDGE}/releases/test_store.py::test_after_any_power_cut_the_board_runs_a_whole_release",),
    ),
)

# Of docs/explanation/threat-model.md: what no figure of a card covers.
BEYOND = (
    "Whoever controls the board, its memory or its lens has the raw samples.",
    "Several samples of one person, linked, tell more than one, except where a figure names tracks or linked codes.",
    "Each service counts epsilon for itself: a person before the cameras of several, on one board or on many, pays in "
    "each, and the epsilons add up.",
    "Code that runs in the process with the raw frames, after a decoder was taken over, has a narrow way out.",
)


def render(bundle: Bundle, card: Mapping[str, Any], signer: str) -> str:
    """The page of a verified bundle, whose card is ``card`` and whose signer is called ``signer``."""
    manifest, counts = bundle.manifest.document, bundle.manifest.counts
    artefacts = [{**part, "title": board_column.title(part), "also": _also(part)} for part in card["artefacts"]]
    return (
        environment()
        .get_template("dpia.html")
        .render(
            bundle=bundle,
            manifest=manifest,
            card={**card, "artefacts": artefacts},
            signer=signer,
            counted=None if counts is None else leaving(counts),
            detector=manifest.get("detector"),
            more=[one for one in manifest["outputs"] if one["kind"] != "label"],
            retained=RETAINED,
            fail_closed=FAIL_CLOSED,
            beyond=BEYOND,
            version=__version__,
        )
    )


def _also(part: Mapping[str, Any]) -> str | None:
    """What else can be read, in the words of the audit; None where it did not ask."""
    return what_else_sentence(part) if part.get("what_else") else None
