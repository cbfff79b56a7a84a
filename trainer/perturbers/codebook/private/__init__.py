"""Codebooks that guard the people they were trained on."""
