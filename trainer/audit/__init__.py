"""How much does an adversary who retrains still learn? Registry of attacks, metrics with intervals, audit.json."""

from trainer.audit.auditing import audit
from trainer.audit.document import as_text, save

__all__ = ["as_text", "audit", "save"]
