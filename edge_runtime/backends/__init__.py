"""The interpreters that run an artefact: each behind the same four methods, none imported until it is asked for."""

from edgeveil.edge_runtime.backends.select import available, open_backend

__all__ = ["available", "open_backend"]
