"""Codebooks: what leaves is a class, one of a few codes, and a picture of the code. One idea a file."""
