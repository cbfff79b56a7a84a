"""The interpreters that run an artefact: each behind the same four methods, none imported until it is asked for."""

from edge_runtime.backends.choice import available, open_backend

__all__ = ["available", "open_backend"]
