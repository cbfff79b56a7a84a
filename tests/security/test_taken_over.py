"""Code that has taken over the inside gets nowhere: as root's service, as an ordinary user, with namespaces or without.

Each guard that holds it is taken away once, and then what it holds back succeeds: so the attempts would be noticed.
"""

import contextlib
import functools
import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest

from edgeveil.edge_runtime.sandbox import landlock
from tests.security import taken_over
from tests.security.taken_over import GUARDS, NOBODY, WITHOUT_NAMESPACES
from tests.support import bundles
from tests.support.checkout import PACKAGES, ROOT

pytestmark = pytest.mark.skipif(platform.machine() not in ("x86_64", "aarch64"), reason="the attempts have its numbers")
SITE = str(Path(np.__file__).parents[1])
USERS = [
    pytest.param(None, id="as-the-user-of-the-tests"),
    pytest.param(NOBODY, id="as-an-ordinary-user", marks=pytest.mark.skipif(os.geteuid() != 0, reason="needs root")),
]


@functools.cache
def python_of(user):
    """An interpreter that this user can run: this one may lie in a folder of root's."""
    for path in (sys.executable, "/usr/bin/python{}.{}".format(*sys.version_info)):
        with contextlib.suppress(OSError):
            command = [path, "-c", "import numpy, secrets"]
            more = {} if user is None else {"user": user, "group": user, "extra_groups": []}
            environment = {**os.environ, "PYTHONPATH": SITE}
            if subprocess.run(command, env=environment, capture_output=True, check=False, **more).returncode == 0:
                return path
    pytest.skip("NO PYTHON HERE CAN BE RUN BY AN ORDINARY USER: only root's service was tried")


def service(first="", user=None, *, terminal=True):
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        made = bundles.make_bundle(Path(name), example=bundles.numpy_example())
        more = {"python": python_of(user), "path": f"{PACKAGES}:{SITE}", "first": first, "user": user}
        return taken_over.service(str(ROOT), str(made.path), str(made.trust), **more, terminal=terminal)


@pytest.mark.parametrize("namespaces", [True, False], ids=["with-namespaces", "without"])
@pytest.mark.parametrize("user", USERS)
def test_nothing_is_gained(user, namespaces):
    code, frames, gained, said = service("" if namespaces else WITHOUT_NAMESPACES, user)
    assert gained is not None, said
    known_open = set() if landlock.version() else {"a secret that anyone may read", "passwords"}
    assert {name: what for name, what in gained.items() if name not in known_open} == {}
    assert (code, frames) == (0, 3), said


@pytest.mark.parametrize("guard", GUARDS)
def test_each_guard_is_one(guard):
    first, expected = GUARDS[guard]
    if guard.endswith("(root)") and os.geteuid() != 0:
        pytest.skip("only where root starts it")
    if guard == "Landlock" and not landlock.version():
        pytest.skip("this kernel has no Landlock")
    user = NOBODY if guard.endswith("(ordinary user)") and os.geteuid() == 0 else None
    _, _, gained, said = service(first, user)
    assert gained is not None, said
    if guard.endswith("(ordinary user)") and '"isolation": "network namespace' not in said:
        pytest.skip("NO NAMESPACE CAN BE MADE HERE, and with it no capabilities")
    assert expected <= set(gained), said


@pytest.mark.skipif(os.geteuid() != 0, reason="only where root starts it")
def test_what_would_remain_root_is_refused():
    code, frames, gained, said = service("account.become = lambda *words, **more: None", terminal=False)
    assert (code, frames, gained) == (2, 0, None)
    assert "does not run as root: name a user with --inside-user" in said
