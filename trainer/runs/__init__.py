"""Runs: the folder of one training, its checkpoints and its perturber."""
