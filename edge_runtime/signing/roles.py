"""A role: which keys may sign a kind of text, and how many of them must."""

from typing import FrozenSet, Iterable, NamedTuple, Tuple

from edgeveil.edge_runtime.errors import BundleRefused
from edgeveil.edge_runtime.signing.keys import Key


class Role(NamedTuple):
    """``keys`` of which at least ``threshold`` different ones must sign."""

    keys: Tuple[Key, ...]
    threshold: int = 1

    def check(self, signers: Iterable[str], what: str, name: str, *, revoked: FrozenSet[str] = frozenset()) -> None:
        """Raise ``BundleRefused`` unless enough keys of this role are among the ``signers``; each counts once.

        ``what`` names the text in the message, ``name`` the role. Keys in ``revoked`` do not count. Whether the
        signatures are valid is checked elsewhere.
        """
        signed = set(signers)
        members = {key.key for key in self.keys}
        count = len(signed & members - revoked)
        if count >= self.threshold:
            return
        if signed & members & revoked:
            reason, problem = "revoked-key", "is signed with a revoked key. Have it signed with another"
        elif count:
            reason, problem = "below-threshold", "has {} of the {} signatures that it needs. Have more keys of it sign"
            problem = problem.format(count, self.threshold)
        else:
            names = ", ".join("{:.16}...".format(key) for key in sorted(signed)) or "no one"
            reason, problem = "untrusted-key", "is signed by {}, which may not. Get the right one from its owner"
            problem = problem.format(names)
        raise BundleRefused(reason, "This {}, for the role {}, {}.".format(what, name, problem))


NOBODY = Role(())
