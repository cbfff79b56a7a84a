"""The interpreters that run an artefact, each behind the same methods and imported only when it is used."""

from edgeveil.edge_runtime.backends.select import available, open_backend

__all__ = ["available", "open_backend"]
