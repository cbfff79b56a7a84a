"""Vendors' compilers: what their boards' accelerators run, made of an exported artefact. Found by ``vendors``."""
