"""A probe is one file: what it finds is in the document, on the terminal, on the card and on its page."""

import json
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from edgeveil.edge_runtime.registry import Registry
from edgeveil.trainer.audit import probes
from edgeveil.trainer.audit.card import card
from edgeveil.trainer.audit.text import as_text
from edgeveil.trainer.report import frontier
from edgeveil.trainer.report.card_page import as_lines, render, shown
from tests.support.audit_documents import document

PROBE = '''
"""How many of the outputs are odd numbers."""

from edgeveil.trainer.audit.findings import Finding
from edgeveil.trainer.audit.probes import Probe


class Oddness(Probe):
    """Counts."""

    name = "oddness"
    asks = "odd numbers"

    def run(self, about):
        """One share."""
        facts = {"null": 0.5, "rows": 12, "text": "counted by one file", "more": {"kind": "probe"}}
        return [Finding(self.asks, "oddness of a code", "share", 0.4321, (0.4, 0.46), **facts)]
'''
MANIFEST = {
    "name": "digits",
    "perturber": {
        "kind": "codebook",
        "substituted": False,
        "identity_allowed": False,
        "target": "parity",
        "sensitive": "less-than-five",
        "target_classes": ["even", "odd"],
    },
}


@pytest.fixture
def found(tmp_path, monkeypatch):
    """The findings of a folder with that one file and nothing else."""
    package = tmp_path / "probes_of_one_file"
    package.mkdir()
    shutil.copy(Path(probes.__file__), package / "__init__.py")
    (package / "oddness.py").write_text(PROBE)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(probes, "PROBES", Registry("probes_of_one_file", key="name", word="probe"))
    yield [finding for probe in probes.probes() for finding in probe.run(SimpleNamespace())]
    for name in [name for name in sys.modules if name.startswith("probes_of_one_file")]:
        del sys.modules[name]


def test_one_file_is_seen_everywhere(found):
    audit = document()
    audit["findings"] += [one.as_json() for one in found]
    made = card(audit, MANIFEST)
    assert '"oddness of a code"' in json.dumps(made["artefacts"][0]["findings"])
    values = {"title": "", "substituted": "", "development": True, "bench": None, "speed": None, "curves": []}
    values |= {"comparison": None, "boards": [], "identities": [], "pictures": None}
    report = frontier.render({**frontier.summary(audit), **values})
    for text in (as_text(audit), "\n".join(as_lines(made)), render(made), report):
        for words in ("odd numbers", "oddness of a code", "43.21 %", "counted by one file"):
            assert words in text
    assert [one.title for one in shown(audit)["tables"] if "odd" in one.title] == ["odd numbers"]
