"""The roots of the repository, installed under one name.

``trainer``, ``models``, ``devices`` and ``edge_runtime`` stand at the top of the repository, and are imported as
``edgeveil.trainer`` and so on, so that a user's own folder of such a name hides nothing. ``trainer/api`` is what
``import edgeveil`` gives. Everything else about the package is in pyproject.toml.
"""

from setuptools import find_packages, setup

ROOTS = ("trainer", "models", "devices", "edge_runtime")

packages = [name for root in ROOTS for name in (root, *(f"{root}.{below}" for below in find_packages(root)))]
setup(
    packages=["edgeveil", *(f"edgeveil.{name}" for name in packages if name != "trainer.api")],
    package_dir={"edgeveil": "trainer/api", **{f"edgeveil.{root}": root for root in ROOTS}},
)
