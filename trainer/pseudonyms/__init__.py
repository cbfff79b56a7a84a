"""Keyed pseudonyms for one recipient: to reveal, to rotate, and to erase for good."""
