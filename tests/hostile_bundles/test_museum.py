"""Every hostile bundle is refused, for its own reason, in words a person can use."""

from __future__ import annotations

import time

from edgeveil.edge_runtime.bundle.reader import read_bundle
from edgeveil.edge_runtime.errors import BundleRefused
from tests.hostile_bundles import audits, manifests, museum, promises, series, signatures, zips
from tests.hostile_bundles.raw_zip import write
from tests.support import bundles

ROOMS = (zips, signatures, manifests, audits, promises, series)


def refused(exhibit):
    """How an exhibit is refused: its reason, whether that was quick, and whether its words are as they must be."""
    data, trust = exhibit.bundle()
    started = time.process_time()
    try:
        read_bundle(data, trust)
    except BundleRefused as refusal:
        quick, said = time.process_time() - started < 2, str(refusal)  # none can keep the reader busy
        printable = said.isprintable() and said.isascii() and len(said) < 500
        return refusal.reason, quick, printable and said.count(". ") >= 1  # what was wrong, and then what to do
    return "taken"


def test_every_hostile_bundle_is_refused_for_its_own_reason():
    found = {name: refused(exhibit) for name, exhibit in museum.EXHIBITS.items()}
    assert found == {name: (exhibit.reason, True, True) for name, exhibit in museum.EXHIBITS.items()}


def test_what_the_exhibits_are_made_from_is_accepted():
    for example in (bundles.artefact_example, bundles.numpy_example, bundles.channel_example):
        manifest, members = example()
        bundle = read_bundle(bundles.sealed(bundles.with_members(manifest, members), members), bundles.trust())
        assert bundle.members == members
    museum_piece = write(museum.entries())
    assert read_bundle(museum_piece, bundles.trust()).manifest.document == museum.good()[0]


def test_the_museum_is_large_enough():
    assert len(museum.EXHIBITS) >= 100
    assert len({exhibit.reason for exhibit in museum.EXHIBITS.values()}) >= 40
    assert all(room.__doc__ for room in ROOMS)
