"""Attribute inference: adversaries that infer z from what a perturber lets out, and how well each does."""
