"""Audit of samples before and after any mechanism: no recipe, no bundle, no code of the mechanism."""
