"""What adversaries find in released rows: those of a perturber, and those of label-only beside it."""
