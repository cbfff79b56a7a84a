"""Releases: what leaves is a class, one of a few codes, and a picture of the code. One idea a file."""

from trainer.perturbers.release.release import fit

__all__ = ["fit"]
