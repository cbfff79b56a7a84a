"""Whether an audit covers what runs here: this artefact, run by this device.

An audit runs the artefact on a workstation's processor. An accelerator rounds differently (float16, its own engine,
other int8), so only ``edgeveil audit --on BOARD --device`` measures its output. That audit is in the same document,
under ``others``, and names the device in its section ``on_board``. What a simulator computed is no such audit.
"""

import math
import os
import platform
import sys
from typing import Any, Iterable, List, Mapping, NamedTuple, NoReturn, Optional, Tuple

from edgeveil.edge_runtime import machine
from edgeveil.edge_runtime.bundle.audit_figures import BOUNDED, LEAKS, NOTHING_FOUND, best_attack, hidden
from edgeveil.edge_runtime.device import CPU
from edgeveil.edge_runtime.errors import BadInput, BundleRefused
from edgeveil.edge_runtime.manifest import outlets
from edgeveil.edge_runtime.manifest.manifest import DAY_S, Limit, Manifest, Price
from edgeveil.edge_runtime.manifest.schema import NO_MODEL
from edgeveil.edge_runtime.util import strict_json
from edgeveil.edge_runtime.util import validate as field
from edgeveil.edge_runtime.util.filesystem import read
from edgeveil.edge_runtime.util.validate import Problem, Table

Place = Tuple[Optional[str], str]  # a board by its model (None: it has none) and its processor's architecture


def current_place() -> Place:
    """The kind of this machine, as an audit on a board names it."""
    return machine.board(), platform.machine()


def audits_of(
    document: Mapping[str, Any], artefact: str, device: Optional[str], place: Optional[Place] = None
) -> List[Mapping[str, Any]]:
    """The audits in a bundle's audit document that cover ``artefact`` on ``device``, or on any device for None.

    Accelerators of the same name differ between boards: audits of an accelerator on another kind of board than
    ``place`` are left out; None takes them all. Raises ``LookupError``, ``TypeError`` or ``AttributeError`` for
    anything that is no audit document.
    """
    parts = [document] + document.get("others", [])
    mine = [part for part in parts if artefact in part["speaks_of"]]
    if device is None:
        return mine
    pairs = [(part, part.get("on_board", {})) for part in mine]
    return [
        part
        for part, board in pairs
        if board.get("device", CPU) == device
        and not board.get("simulated", False)
        and (device == CPU or place in (None, (board["board"], board["architecture"])))
    ]


def is_audited(
    manifest: Manifest, audit: Optional[Mapping[str, Any]], artefact: str, device: str, place: Optional[Place] = None
) -> bool:
    """Whether the privacy card of a verified bundle covers ``artefact`` on ``device``; as ``audits_of``."""
    privacy = manifest.privacy
    return audit is not None and artefact in privacy.speaks_of and bool(audits_of(audit, artefact, device, place))


NOT_AUDITED_ON = (
    "no audit has measured what leaks when {artefact} runs on {device}, only on a workstation's processor (edgeveil "
    "audit --on BOARD --device {device})"
)


IDENTITY_ALLOWED = (
    "its manifest says identity_allowed: outputs may equal the raw data, and nothing checks here that they do not"
)


LEAK = "its audit found that it leaks; its privacy card says what"


def leaks(audit: Optional[Mapping[str, Any]]) -> bool:
    """Whether the verdict of a bundle's checked audit document is *leaks*."""
    return ((audit or {}).get("verdict") or {}).get("word") == LEAKS


def announce(bundle: Any, artefact: str = "", device: str = CPU, audited: bool = True) -> None:
    """Write the warnings about a bundle to stderr: its key, what is not checked, its audit on this ``device``."""
    name = bundle.manifest.name
    if bundle.development:
        sys.stderr.write(
            "*** DEVELOPMENT BUNDLE: {} is signed by a throw-away key. Anyone may have it. "
            "Not for real data. ***\n".format(name)
        )
    if bundle.manifest.perturber.identity_allowed:
        sys.stderr.write("note: {}: {}\n".format(name, IDENTITY_ALLOWED))
    if bundle.manifest.privacy.file is None:
        sys.stderr.write("note: {} was not audited: no one has measured what it leaks\n".format(name))
    elif device != CPU and not audited:
        sys.stderr.write("note: {}\n".format(NOT_AUDITED_ON.format(artefact=artefact, device=device)))
    elif leaks(bundle.audit):
        sys.stderr.write("note: {}: {}\n".format(name, LEAK))
    document = bundle.manifest.document
    if document.get("capture") is not None or document.get("stream") is not None:
        from edgeveil.edge_runtime.manifest import stream_bound  # single readings need none of it

        if document.get("capture") is not None and stream_bound.unheld(document["stages"], document.get("stream")):
            sys.stderr.write("note: {}: {}\n".format(name, stream_bound.UNHELD))
        sys.stderr.write("note: {}: {}\n".format(name, stream_bound.stream_bound(document).text))


# What the owner of a device demands of every bundle, whichever key signed it: ``policy.json``, next to ``trust.json``.
#
# ::
#
#     {"countersigned":true,"hide":[{"audited":true,"most_attack_over_chance":0.05,"sensitive":"identity"}],"schema":1}
#
# A good signature says who made a bundle, not that it hides anything. Each entry names an attribute that must be
# hidden, whether an audit must cover the artefact that runs, and by how much attacks may beat chance there (a share,
# 0.05 is 5 points; null: no limit). What counts is the upper end of the audit's 95 % intervals: the verdict's, or the
# best attack's in an audit made before there was one. Chance is the better of the two on the privacy card. ``verdict``
# (where it is left out, any will do) is what the audit's must be at least: "nothing found", or "bounded".
# ``countersigned`` (false where it is left out) asks that an auditor other than the bundle's maker signed the audit
# (``edgeveil.edge_runtime.bundle.board_state``). ``spend`` asks that a bundle counts what it tells, and limits that
# (``edgeveil.edge_runtime.bundle.policy``); with it, ``hide`` may be empty. ``on_shift`` says what a stream does whose
# codes are not those of the audit any more (``edgeveil.edge_runtime.bundle.policy``). ``counts`` is how counts of
# people may leave, which no attack reads: "none", "noise" (of at most 1 epsilon a record) or "exact"; where it is left
# out, "noise" next to demands of ``hide``, else "exact". The first flash writes the file as root. No bundle and no
# trust file can change it, only a newer policy that the device's root keys signed
# (``edgeveil.edge_runtime.bundle.trust_store.update_policy``).


POLICY_FILE = "policy.json"
MAX_BYTES = 2**16
MOST_AIM_MINUTES = 15
_MOST_ENTRIES = 16
_MICRO = 10**6
LABEL_ONLY, STOP = "label-only", "stop"
OnShift = NamedTuple("OnShift", [("do", str), ("most_shift", float)])

_VERDICTS = {NOTHING_FOUND: (NOTHING_FOUND, BOUNDED), BOUNDED: (BOUNDED,)}  # those that meet a demand


class Demand(NamedTuple):
    """One entry of ``hide``."""

    sensitive: str
    most_attack_over_chance: Optional[float]
    audited: bool
    verdict: Optional[str] = None


class Policy(object):
    """The demands of one ``policy.json``: a bundle must meet all of them.

    ``countersigned`` is held by ``Trust.check_policy``, which knows who the auditors are, ``spend`` by the ledger
    too (``edgeveil.edge_runtime.bundle.policy``), and ``on_shift`` by the service.
    """

    def __init__(
        self,
        demands: List[Demand],
        countersigned: bool = False,
        spend: "Optional[Limit]" = None,
        on_shift: "Optional[OnShift]" = None,
        most: Optional[Mapping[str, str]] = None,
        aim_minutes: Optional[int] = None,
    ) -> None:
        self.demands, self.countersigned, self.spend, self.on_shift = demands, countersigned, spend, on_shift
        self.most = most or {}  # one of outlets.LEVELS, by the name of an outlet
        self.aim_minutes = aim_minutes  # how long a person may see edges of the raw picture (``bundle.aims``)

    def check(
        self,
        manifest: Manifest,
        audit: Optional[Mapping[str, Any]],
        artefact: Optional[str] = None,
        device: Optional[str] = None,
        place: Optional[Place] = None,
    ) -> None:
        """Raise ``BundleRefused`` where a verified bundle does not meet the demands; ``audit``: its checked document.

        The audit must cover ``artefact`` run on ``device``. Where these are not known yet (None), one of the bundle's
        artefacts must meet the demands, on any device. ``place``: the kind of machine that has the device, None for
        any.
        """
        problem = "" if self.spend is None else outlets.uncounted(manifest.document)
        if problem:
            _refuse('it must count what it tells ("spend"), and ' + problem)
        for outlet, level in outlets.unattacked(manifest.document):
            allowed = self.most.get(outlet.name, outlets.NOISE if self.demands else outlets.EXACT)
            if outlets.LEVELS.index(level) > outlets.LEVELS.index(allowed):
                _refuse(_UNATTACKED.format(name=outlet.name, level=_LEAVE[level], allowed=_LEAVE[allowed]))
        if self.on_shift is not None:
            problem = check_shift(self.on_shift, manifest, audit)
            if problem:
                _refuse(problem)
        for demand in self.demands:
            hides = manifest.perturber.sensitive
            if not manifest.perturber.hides(demand.sensitive):
                actual = "hides {}".format(ascii(hides)) if hides else "hides nothing"
                _refuse("it must hide {}, and {}".format(ascii(demand.sensitive), actual))
            if not demand.audited:
                continue
            names = [artefact] if artefact is not None else (manifest.preference or [NO_MODEL])
            problems = [_problem(name, device, place, manifest, audit, demand) for name in names]
            if None not in problems:
                _refuse(str(problems[0]))


_LEAVE = {outlets.NONE: "not at all", outlets.NOISE: "with noise", outlets.EXACT: "exactly"}
_UNATTACKED = (
    "its {name} leave {level}, and the policy takes them {allowed} (no attack of an audit reads them: where something "
    'must be hidden they need noise, of at most 1 epsilon a record, unless the policy has "{name}":"exact")'
)


class NoPolicyForAudit(Policy):
    """No demands, in place of the device's own policy. **Dangerous: every bundle by a trusted key runs.**

    An audit on a board must run bundles that do not meet the policy yet, because the audit is how they come to meet it.
    The caller must only measure the output and must not pass it on. Nothing that serves a camera may use this class.
    Signatures, revoked keys, audience and security version are still checked. A device without a policy has ``None``
    instead.
    """

    def __init__(self) -> None:
        super(NoPolicyForAudit, self).__init__([])


def _named(value: Any, _demand: Any, _policy: Any) -> Iterable[Problem]:
    if not value.strip():
        yield "bad-value", "", "expected the name of an attribute"


def _is_audited(demand: Any, _hide: Any, policy: Any) -> Iterable[Problem]:
    asked = [name for name in ("most_attack_over_chance", "verdict") if demand.get(name) is not None]
    asked += ["countersigned"] if policy.get("countersigned") else []
    if asked and not demand["audited"]:
        yield "bad-value", "audited", "expected true: {} needs an audit".format(asked[0])


def _hides(policy: Any, _around: Any, _policy: Any) -> Iterable[Problem]:
    hide = policy["hide"]
    if not hide and not set(policy) - {"countersigned", "hide", "schema"}:
        yield "bad-count", "hide", "expected 1 to {} entries, got 0".format(_MOST_ENTRIES)
    if len({demand["sensitive"] for demand in hide}) != len(hide):
        yield "bad-value", "hide", "an attribute is listed twice"


def _part_of_one(value: Any, _shift: Any, _policy: Any) -> Iterable[Problem]:
    if not 0 < value < 1:
        yield "bad-value", "", "expected a number between 0 and 1, got {}".format(field.show(value))


_DEMAND: Table = {
    "sensitive": field.text(MAX_BYTES, rule=_named),
    "most_attack_over_chance": field.real(0, 1, null=True),
    "audited": field.truth(),
    "verdict?": field.one_of(sorted(_VERDICTS)),
}
_POLICY: Table = {
    "schema": field.whole(1, 1),
    "countersigned?": field.truth(),
    "hide": field.each(field.record(_DEMAND, rule=_is_audited), 0, _MOST_ENTRIES),
    "spend?": field.record({"most_epsilon": field.real(1 / _MICRO, 1e6), "period_s": field.real(1, 1e9, null=True)}),
    "on_shift?": field.record({"do": field.one_of((LABEL_ONLY, STOP)), "most_shift": field.real(rule=_part_of_one)}),
    "aim_minutes?": field.whole(1, MOST_AIM_MINUTES),
}


def read_policy(data: bytes, path: str = POLICY_FILE) -> Policy:
    """The policy in a file's bytes. Raises ``BadInput`` for anything else."""
    advice = 'Expected {{"schema":1,"hide":[...]}} in {}; '.format(path)
    if len(data) > MAX_BYTES:
        raise BadInput(advice + "it has more than {} bytes.".format(MAX_BYTES))
    try:
        document: Any = strict_json.loads(data)
        limited = [outlet.name for outlet in outlets.OUTLETS if outlet.told is not outlets.untold]
        table = dict(_POLICY, **{name + "?": field.one_of(outlets.LEVELS) for name in limited})
        wanted = field.record(table, rule=_hides)
        field.check(document, "policy", wanted, file="The policy " + path, cure="Correct it.")
    except strict_json.BadJson as error:
        raise BadInput("{}{}. Correct it.".format(advice, error)) from None
    except BundleRefused as error:  # it is no bundle that is refused
        raise BadInput(str(error)) from None
    spend, shift = document.get("spend"), document.get("on_shift")
    if spend is not None:
        period_s = spend["period_s"]
        spend = Limit(math.floor(spend["most_epsilon"] * _MICRO), None if period_s is None else float(period_s))
    return Policy(
        [Demand(**demand) for demand in document["hide"]],
        document.get("countersigned", False),
        spend,
        None if shift is None else OnShift(shift["do"], float(shift["most_shift"])),
        {name: document[name] for name in limited if name in document},
        document.get("aim_minutes"),
    )


def open_policy(path: str) -> Optional[Policy]:
    """The policy at ``path``, None where there is no such file. Raises ``BadInput`` for one that cannot be read."""
    if not os.path.lexists(path):
        return None
    data = read(path, links=True)
    if data is None:
        raise BadInput("The policy {} cannot be read. Make it readable: nothing runs without it.".format(path))
    return read_policy(data, path)


def _problem(
    artefact: str,
    device: Optional[str],
    place: Optional[Place],
    manifest: Manifest,
    audit: Optional[Mapping[str, Any]],
    demand: Demand,
) -> Optional[str]:
    """Why the privacy card of this artefact does not meet the demand; None where it does."""
    privacy = manifest.privacy
    if privacy.file is None or artefact not in privacy.speaks_of:
        return "{} must be audited, and no audit in it speaks of {}".format(ascii(demand.sensitive), artefact)
    # Checked: of this bundle's artefacts and attribute, and every figure in range.
    parts = audits_of(audit or {}, artefact, device, place)
    if not parts:
        return "{} must be audited, and no audit in it speaks of {} on {} (edgeveil audit --on, --device)".format(
            ascii(demand.sensitive), artefact, device
        )
    # Where an artefact was audited twice, the worse of the two counts.
    # Of several attributes each has its figure in an audit.
    by_itself = [any(one["question"] == demand.sensitive for one in hidden(part)) for part in parts]
    if demand.sensitive != manifest.perturber.sensitive and not all(by_itself):
        return "{} must be audited by itself, and an audit of {} has no figure of it".format(
            ascii(demand.sensitive), artefact
        )
    for part in parts if demand.verdict is not None else ():
        word = "none" if part["verdict"] is None else part["verdict"]["word"]
        if word not in _VERDICTS[str(demand.verdict)]:
            return "the verdict of the audit of {} about {} is '{}', and '{}' is wanted".format(
                artefact, ascii(demand.sensitive), word, demand.verdict
            )
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
    verdict = part["verdict"]
    if verdict is None:
        best = best_attack(part)
        return float(best["interval"][1] - best["null"])
    ends = [verdict["upper"][name] for name in ("points", "balanced") if name in verdict["upper"]]
    return 1.0 if None in ends else max(ends) / 100.0


def _refuse(what: str) -> NoReturn:
    raise BundleRefused(
        "policy-not-met",
        "The bundle does not meet this device's policy: {}. Use one that does, or have the owner of the device "
        "change {}.".format(what, POLICY_FILE),
    )


# What a stream does once its codes are not those of the audit any more: ``on_shift`` of the owner's ``policy.json``.
#
# ::
#
#     "on_shift":{"do":"label-only","most_shift":0.25}
#
# ``label-only`` goes on with what D_y predicts and nothing else, ``stop`` ends the service with code 70. Both last
# until it is started again. ``most_shift`` is a total variation distance, from 0 to 1
# (``edgeveil.edge_runtime.ext.shift``).


def check_shift(demand: OnShift, manifest: Manifest, audit: Optional[Mapping[str, Any]]) -> str:
    """Why a verified bundle cannot be held to the demand; empty where it can."""
    histogram = (audit or {}).get("histogram")
    if histogram is None or (manifest.crops and histogram["blank"] is None):
        return 'its audit must say how often each code left ("on_shift"): audit and seal it again, if it sends codes'
    if demand.do == LABEL_ONLY and not any(output.kind == "label" for output in manifest.outputs):
        return 'it must send y, to fall back to label-only ("on_shift")'
    return ""


# The most that a device may tell: what the bundle promises, and ``spend`` of the owner's ``policy.json``. Both hold.
#
# ::
#
#     "spend":{"most_epsilon":10,"period_s":86400}


def price_of(manifest: Manifest, policy: Optional[Any]) -> Optional[Price]:
    """What a release of this bundle costs, and all limits on it; None for a bundle that does not count what it tells.

    ``policy`` is the device's ``Policy``; under one with ``spend``, ``Policy.check`` refuses such a bundle.
    """
    spending = manifest.spending
    if spending is None:
        return None
    return Price(spending.micro_epsilon, _limits(Limit(spending.most_micro_epsilon, spending.period_s), policy))


def count_price_of(manifest: Manifest, policy: Optional[Any]) -> Optional[Price]:
    """As ``price_of``, for the counts of one period; None where they have no noise, or nothing is counted."""
    noise = None if manifest.counts is None else manifest.counts.noise
    if noise is None:
        return None
    return Price(noise.micro_epsilon, _limits(Limit(noise.most_micro_epsilon, DAY_S), policy))


def _limits(own: Limit, policy: Optional[Any]) -> List[Limit]:
    limits = [own]
    if policy is not None and policy.spend is not None:
        limits.append(policy.spend)
    return limits
