"""Codebooks: a class, one of its codes, and a picture of the code are sent."""
