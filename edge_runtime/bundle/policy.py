"""What the owner of a device demands of every bundle, whichever key signed it: ``policy.json``, next to ``trust.json``.

::

    {"countersigned":true,"hide":[{"audited":true,"most_attack_over_chance":0.05,"sensitive":"identity"}],"schema":1}

A good signature says who made a bundle, not that it hides anything. Each entry names an attribute that must be hidden,
whether an audit must cover the artefact that runs, and by how much attacks may beat chance there (a share, 0.05 is 5
points; null: no limit). What counts is the upper end of the audit's 95 % intervals: the verdict's, or the best attack's
in an audit of before there was one. Chance is the better of the two on the privacy card. ``countersigned`` (false where
it is left out) asks that an auditor other than the bundle's maker signed the audit
(``edgeveil.edge_runtime.bundle.countersignature``). ``spend`` asks that a bundle counts what it tells, and limits that
(``edgeveil.edge_runtime.bundle.spend_limits``); with it, ``hide`` may be empty. ``on_shift`` says what a stream does
whose codes are not those of the audit any more (``edgeveil.edge_runtime.bundle.shift_demand``). The first flash writes
the file as root. No bundle and no trust file can change it, only a newer policy that the device's root keys signed
(``edgeveil.edge_runtime.bundle.trust_store.update_policy``).
"""

import os
from typing import TYPE_CHECKING, Any, Dict, List, Mapping, NamedTuple, NoReturn, Optional

from edgeveil.edge_runtime.bundle.audit_scope import Place, audits_of
from edgeveil.edge_runtime.errors import BadInput, BundleRefused
from edgeveil.edge_runtime.formats import strict_json
from edgeveil.edge_runtime.manifest.manifest import Manifest
from edgeveil.edge_runtime.manifest.schema import NO_MODEL
from edgeveil.edge_runtime.storage.filesystem import read

if TYPE_CHECKING:
    from edgeveil.edge_runtime.bundle.shift_demand import OnShift
    from edgeveil.edge_runtime.ledger.book import Limit

POLICY_FILE = "policy.json"
MAX_BYTES = 2**16
_MOST_ENTRIES = 16

Demand = NamedTuple("Demand", [("sensitive", str), ("most_attack_over_chance", Optional[float]), ("audited", bool)])


class Policy(object):
    """The demands of one ``policy.json``: a bundle must meet all of them.

    ``countersigned`` is held by ``Trust.check_policy``, which knows who the auditors are, ``spend`` by the ledger
    too (``edgeveil.edge_runtime.bundle.spend_limits``), and ``on_shift`` by the service.
    """

    def __init__(
        self,
        demands: List[Demand],
        countersigned: bool = False,
        spend: "Optional[Limit]" = None,
        on_shift: "Optional[OnShift]" = None,
    ) -> None:
        self.demands, self.countersigned, self.spend, self.on_shift = demands, countersigned, spend, on_shift

    def check(
        self,
        manifest: Manifest,
        members: Dict[str, bytes],
        artefact: Optional[str] = None,
        device: Optional[str] = None,
        place: Optional[Place] = None,
    ) -> None:
        """Raise ``BundleRefused`` where a verified bundle does not meet the demands.

        The audit must cover ``artefact`` run on ``device``. Where these are not known yet (None), one of the bundle's
        artefacts must meet the demands, on any device. ``place``: the kind of machine that has the device, None for
        any.
        """
        if self.spend is not None and manifest.spending is None:
            _refuse('it must count what it tells ("spend"), and promises nothing of that')
        if self.spend is not None and manifest.counts is not None and manifest.counts.noise is None:
            _refuse('it must count what it tells ("spend"), and its counts of people leave without noise')
        if self.on_shift is not None:
            from edgeveil.edge_runtime.bundle.shift_demand import check_shift

            problem = check_shift(self.on_shift, manifest, members)
            if problem:
                _refuse(problem)
        for demand in self.demands:
            hidden = manifest.perturber.sensitive
            if hidden != demand.sensitive:
                found = "hides {}".format(ascii(hidden)) if hidden else "hides nothing"
                _refuse("it must hide {}, and {}".format(ascii(demand.sensitive), found))
            if not demand.audited:
                continue
            names = [artefact] if artefact is not None else (manifest.preference or [NO_MODEL])
            problems = [_problem(name, device, place, manifest, members, demand) for name in names]
            if None not in problems:
                _refuse(str(problems[0]))


class NoPolicyForAudit(Policy):
    """No demands, in place of the device's own policy. **Dangerous: every bundle by a trusted key runs.**

    An audit on a board must run bundles that do not meet the policy yet, because the audit is how they come to meet it.
    The caller must only measure the output and must not pass it on. Nothing that serves a camera may use this class.
    Signatures, revoked keys, audience and security version are still checked. A device without a policy has ``None``
    instead.
    """

    def __init__(self) -> None:
        super(NoPolicyForAudit, self).__init__([])


def read_policy(data: bytes, path: str = POLICY_FILE) -> Policy:
    """The policy in a file's bytes. Raises ``BadInput`` for anything else."""
    advice = 'Expected {{"schema":1,"hide":[...]}} in {}; '.format(path)
    if len(data) > MAX_BYTES:
        raise BadInput(advice + "it has more than {} bytes.".format(MAX_BYTES))
    try:
        document = strict_json.loads(data)
    except strict_json.BadJson as error:
        raise BadInput("{}{}. Correct it.".format(advice, error)) from None
    keys = set(document) - {"countersigned", "on_shift", "spend"} if type(document) is dict else None
    if keys != {"hide", "schema"} or type(document["schema"]) is not int or document["schema"] != 1:
        raise BadInput(advice + "it has other keys or another schema. Correct it.")
    hide = document["hide"]
    spend = on_shift = None
    if "spend" in document:
        from edgeveil.edge_runtime.bundle.spend_limits import read_spend

        spend = read_spend(document["spend"], path)
    least = 1 if spend is None and "on_shift" not in document else 0
    if type(hide) is not list or not least <= len(hide) <= _MOST_ENTRIES:
        raise BadInput("{}'hide' is no list of {} to {} demands. Correct it.".format(advice, least, _MOST_ENTRIES))
    demands = [_demand(entry, "hide[{}] of {}".format(place, path)) for place, entry in enumerate(hide)]
    if len({demand.sensitive for demand in demands}) != len(demands):
        raise BadInput(advice + "an attribute is listed twice. Remove one of the entries.")
    countersigned = document.get("countersigned", False)
    if type(countersigned) is not bool:
        raise BadInput(advice + "'countersigned' is not true or false. Correct it.")
    if countersigned and not all(demand.audited for demand in demands):
        raise BadInput(advice + "'countersigned' needs an audit: set 'audited' to true in each demand. Correct it.")
    if "on_shift" in document:
        from edgeveil.edge_runtime.bundle.shift_demand import read_shift

        on_shift = read_shift(document["on_shift"], path)
    return Policy(demands, countersigned, spend, on_shift)


def open_policy(path: str) -> Optional[Policy]:
    """The policy at ``path``, None where there is no such file. Raises ``BadInput`` for one that cannot be read."""
    if not os.path.lexists(path):
        return None
    data = read(path)
    if data is None:
        raise BadInput("The policy {} cannot be read. Make it readable: nothing runs without it.".format(path))
    return read_policy(data, path)


def _demand(entry: Any, at: str) -> Demand:
    keys = ["audited", "most_attack_over_chance", "sensitive"]
    if type(entry) is not dict or sorted(entry) != keys:
        raise BadInput("Expected the keys {} as {}. Correct it.".format(", ".join(keys), at))
    sensitive, most, audited = entry["sensitive"], entry["most_attack_over_chance"], entry["audited"]
    if type(sensitive) is not str or not sensitive.strip() or not sensitive.isprintable():
        raise BadInput("Expected the name of an attribute as 'sensitive' in {}. Correct it.".format(at))
    if type(audited) is not bool:
        raise BadInput("Expected true or false as 'audited' in {}. Correct it.".format(at))
    if most is not None and (type(most) not in (int, float) or not 0 <= most <= 1):
        raise BadInput("Expected a share from 0 to 1, or null, as 'most_attack_over_chance' in {}.".format(at))
    if most is not None and not audited:
        raise BadInput("A limit needs an audit: set 'audited' to true in {}, or remove the limit.".format(at))
    return Demand(sensitive, most, audited)


def _problem(
    artefact: str,
    device: Optional[str],
    place: Optional[Place],
    manifest: Manifest,
    members: Dict[str, bytes],
    demand: Demand,
) -> Optional[str]:
    """Why the privacy card of this artefact does not meet the demand; None where it does."""
    privacy = manifest.privacy
    if privacy.file is None or artefact not in privacy.speaks_of:
        return "{} must be audited, and no audit in it speaks of {}".format(ascii(demand.sensitive), artefact)
    from edgeveil.edge_runtime.bundle.audit_document import read_audit  # where an audit is demanded

    # Checked: of this bundle's artefacts and attribute, and every figure in range.
    parts = audits_of(read_audit(manifest, members) or {}, artefact, device, place)
    if not parts:
        return "{} must be audited, and no audit in it speaks of {} on {} (edgeveil audit --on, --device)".format(
            ascii(demand.sensitive), artefact, device
        )
    # Where an artefact was audited twice, the worse of the two counts.
    over = max(_upper_end(part) for part in parts)
    most = demand.most_attack_over_chance
    # As the card is written: six digits behind the point.
    if most is not None and round(over - most, 6) > 0:
        return "attacks on {} may beat chance at {} by {:.1f} points (upper end of 95 %), and {:g} are the most".format(
            artefact, ascii(demand.sensitive), 100.0 * over, round(100.0 * most, 6)
        )
    return None


def _upper_end(part: Mapping[str, Any]) -> float:
    """By how much attacks may beat chance, as a share; all of it where the audit knows no upper end."""
    found = part.get("verdict")
    if found is None:
        return float(part["worst_adaptive"]["high"] - max(part["chance"].values()))
    ends = [found["upper"][name] for name in ("points", "balanced") if name in found["upper"]]
    return 1.0 if None in ends else max(ends) / 100.0


def _refuse(what: str) -> NoReturn:
    raise BundleRefused(
        "policy-not-met",
        "The bundle does not meet this device's policy: {}. Use one that does, or have the owner of the device "
        "change {}.".format(what, POLICY_FILE),
    )
