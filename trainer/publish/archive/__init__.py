"""Recordings and their table for one recipient: frames perturbed in chunks, then the table's publisher, in parts."""
