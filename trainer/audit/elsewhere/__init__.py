"""Audits of what is computed elsewhere than by the artefact itself on this machine."""
