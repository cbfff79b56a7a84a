"""Families of attribute inference attacks: each class with a ``name`` is one (trainer/attacks/registry.py)."""
