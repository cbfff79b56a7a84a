"""Attacks that look in one place: parities of bits, and rows with a wrong label."""
