"""Attacks on the people whom a model was trained on: what it tells of their attributes, and that they took part."""
