"""Recordings and their table for one recipient: frames in chunks, then parts in an order of their own."""
