"""The preview page: one document, one script, one style sheet; it loads nothing from elsewhere."""

from html import escape
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

import numpy as np

from edgeveil.edge_runtime.bundle.audit_figures import best_attack, chances, kept
from edgeveil.edge_runtime.bundle.policy import audits_of, current_place
from edgeveil.edge_runtime.device import CPU
from edgeveil.edge_runtime.manifest.count import CountRules
from edgeveil.edge_runtime.manifest.manifest import Manifest
from edgeveil.edge_runtime.util.png import encode

_ICON = np.kron(np.array([[40, 200], [200, 90]], np.uint8), np.ones((8, 8), np.uint8))
_BARS = (
    ("exposure", "exposure", "the middle value of what is seen"),
    ("dark", "too dark, or no value", "how much of the frame is at the lower end"),
    ("bright", "too bright, or too far", "how much of the frame is at the upper end"),
    ("near", "nearest", "5 % of what is seen lies below"),
    ("far", "farthest", "95 % of what is seen lies below"),
    ("blob", "stands out", "how much differs from the background"),
    ("focus", "focus", "turn the lens until it is largest"),
)
_BAR = (
    '<tr title="{2}"><th scope="row">{1}</th><td><meter id="{0}" min="0" max="15" aria-label="{1}: {2}"></meter></td>'
    '<td id="{0}-level"></td></tr>'
)
_PICTURE = (
    '<figure><img id="slot{0}" alt="perturbed frame, slot {1}" width="1" height="1"><figcaption id="label{0}">'
    "</figcaption></figure>"
)

_SCENE = """<section id="raw"><h2>Simulated scene: what an attacker would see if it were sent</h2>
<figure><img id="scene" alt="the simulated scene, drawn again from its seed" width="256" height="212"></figure>
<p class="soft">Drawn for this page, from the seed of the simulation. Of a sensor no raw picture gets here.</p>
</section>
"""
_SENT = '<h2 class="wide">What is sent: all that an attacker sees</h2>'
_COUNTS = """<h2>Counts of the last period</h2>
<svg viewBox="0 0 {1} {0}" role="img" aria-label="lines and zones in the picture of the camera">{places}</svg>
<table id="counts">{rows}<tr><th scope="row">state</th><td id="count-state">-</td></tr></table>
"""
_PLACE = '<poly{0} class="{0}" points="{1}"/><text x="{2[1]:g}" y="{2[0]:g}">{3}</text>'

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>EdgeVeil preview</title>
<link rel="stylesheet" href="page.css">
<link rel="icon" href="icon.png">
</head>
<body>
<main>
<h1>Output of this sensor <span id="state" role="status">...</span></h1>
{notes}
<p class="soft">This is what is sent. The raw picture of a sensor is never shown, here or anywhere.</p>
<div id="parts">
{scene}<section id="pictures">{pictures}
<figure id="minute" hidden><canvas id="strip" width="720" height="60" role="img"
 aria-label="what was sent in the last minute, a picture every five seconds"></canvas>
<figcaption>The last minute, every five seconds; kept by this page alone</figcaption></figure></section>
<section>
<h2>Now</h2>
<table id="figures">
<tr><th scope="row">frames a second</th><td id="fps">-</td></tr>
<tr><th scope="row">latency</th><td id="latency">-</td></tr>
<tr><th scope="row">tick</th><td id="tick">-</td></tr>
<tr><th scope="row">last frame</th><td id="age">-</td></tr>
<tr><th scope="row">dropped inside</th><td id="drops">-</td></tr>
</table>
{counts}<h2>Privacy card</h2>
<dl>{card}</dl>
</section>
<section id="camera-aid" hidden>
<h2>Camera aid</h2>
<p class="note">The camera aid is on: these bars are computed from the raw picture and reveal something about it, in
sixteen coarse steps. Switch it off when the camera is in place.</p>
<table>{bars}<tr><th scope="row">cut off at</th><td colspan="2" id="cut"></td></tr></table>
</section>
</div>
</main>
<script src="page.js"></script>
</body>
</html>
"""

SCRIPT = b"""'use strict';
const at = (id) => document.getElementById(id);
const figure = (value, unit) => value === null ? '-' : value.toFixed(1) + unit;
const drops = (counts) => Object.entries(counts).map(([why, count]) => why + ' ' + count).join(', ') || 'none';
const SIDE = 60, EVERY_MS = 5000;
let shown = null, strip_at = -EVERY_MS;
// Only this page has the strip: the device keeps the last frame alone.
at('slot0').addEventListener('load', () => {
  if (performance.now() - strip_at < EVERY_MS) return;
  strip_at = performance.now();
  const canvas = at('strip'), drawn = canvas.getContext('2d');
  drawn.imageSmoothingEnabled = false;
  drawn.globalCompositeOperation = 'copy';
  drawn.drawImage(canvas, -SIDE, 0);
  drawn.globalCompositeOperation = 'source-over';
  const {naturalWidth: width, naturalHeight: height} = at('slot0');
  const scale = SIDE / Math.max(width, height);
  drawn.clearRect(canvas.width - SIDE, 0, SIDE, SIDE);
  drawn.drawImage(at('slot0'), canvas.width - SIDE, 0, width * scale, height * scale);
  at('minute').hidden = false;
});
function show(state) {
  const elsewhere = state.drops === null && 'shown on the device itself only';
  at('state').textContent = state.state;
  at('fps').textContent = figure(state.fps, '');
  at('latency').textContent = elsewhere || figure(state.latency_ms, ' ms');
  at('tick').textContent = state.tick === null ? '-' : String(state.tick);
  at('age').textContent = figure(state.age_s, ' s ago');
  at('drops').textContent = elsewhere || drops(state.drops);
  at('camera-aid').hidden = Object.keys(state.camera_aid).length === 0;
  for (const [name, level] of Object.entries(state.camera_aid)) {
    if (name === 'cut') {
      const edges = ['top', 'right', 'bottom', 'left'].filter((_, place) => level & (1 << place));
      const whole = state.camera_aid.blob ? 'no edge: all of it is in the frame' : 'no edge';
      at('cut').textContent = edges.join(', ') || whole;
    } else {
      at(name).value = level;
      at(name + '-level').textContent = String(level);
    }
  }
  for (const slot of state.slots) {
    at('label' + slot.slot).textContent = slot.label;
    if (state.tick !== shown) {
      const picture = at('slot' + slot.slot);
      const scale = Math.max(1, Math.floor(360 / Math.max(slot.width, slot.height)));
      picture.width = slot.width * scale;
      picture.height = slot.height * scale;
      picture.src = 'frame.png?slot=' + slot.slot + '&tick=' + state.tick;
    }
  }
  if (at('scene') && state.tick !== shown) at('scene').src = 'scene.png?tick=' + state.tick;
  if (at('counts') && state.counted) {
    at('count-state').textContent = state.counted.state;
    const values = state.counted.values || [];
    document.querySelectorAll('#counts .count').forEach((cell, place) => {
      cell.textContent = String(values[place] ?? '-');
    });
  }
  shown = state.tick;
}
async function poll() {
  try {
    const answer = await fetch('state.json', {cache: 'no-store'});
    if (!answer.ok) throw new Error(String(answer.status));
    show(await answer.json());
  } catch (error) {
    at('state').textContent = 'not reached';
    at('fps').textContent = '-';
  }
  setTimeout(poll, 250);
}
poll();
"""

STYLE = b""":root{color-scheme:light dark;
--page:#f7f8f9;--ink:#1c2024;--soft:#545d65;--line:#dcdfe2;--state:#d9e6de;--note:#fff3cd}
@media (prefers-color-scheme:dark){
:root{--page:#14181b;--ink:#e8e6e1;--soft:#a3adb4;--line:#343d43;--state:#24503b;--note:#3d3313}}
body{font:16px/1.4 system-ui,sans-serif;margin:0;color:var(--ink);background:var(--page)}
main{max-width:75rem;margin:0 auto;padding:1rem 1.25rem 2rem}
h1{font-size:1.4rem;margin:0 0 .4rem}h2{font-size:1.1rem;margin:1.2rem 0 .3rem}section>h2:first-child{margin-top:0}
#state{font-size:1rem;font-weight:600;padding:.15rem .6rem;border-radius:1rem;background:var(--state)}
.soft{color:var(--soft);margin:.3rem 0 1rem}
#parts{display:flex;flex-wrap:wrap;gap:2rem;align-items:flex-start}section{flex:0 1 26rem;min-width:0}
#pictures{display:flex;flex-wrap:wrap;gap:1rem;flex:0 1 auto;max-width:46rem}
.wide{flex-basis:100%;margin:0}
svg{display:block;width:18rem;max-width:100%;background:#222;margin:.3rem 0}
text{fill:#fff;font-size:2rem;dominant-baseline:hanging}
.gon{fill:#4f9be8;fill-opacity:.35;stroke:#4f9be8;stroke-width:4}.line{fill:none;stroke:#f2b134;stroke-width:6}
#counts td{font-variant-numeric:tabular-nums;font-weight:600}
figure{margin:0}#minute{flex-basis:100%}canvas{display:block;max-width:100%;background:#222}img{image-rendering:pixelated;background:#222;display:block;max-width:100%;height:auto}
figcaption{min-height:1.4em;font-weight:600}
table{border-collapse:collapse}th{text-align:left;font-weight:400;padding:.15rem 1.2rem .15rem 0;color:var(--soft)}
#figures td{font-variant-numeric:tabular-nums;font-weight:600}
dl{margin:0;border-top:1px solid var(--line)}
dt{color:var(--soft);font-size:.9rem;margin-top:.5rem}dd{margin:0;overflow-wrap:anywhere}
meter{width:12rem;max-width:38vw}.note{background:var(--note);padding:.5rem .8rem;border-left:4px solid #d39e00}
"""


def files(
    card: List[Tuple[str, str]],
    notes: Sequence[str],
    slots: int,
    *,
    counts: Optional[Tuple[CountRules, Sequence[int]]] = None,
    scene: bool = False,
) -> Dict[str, Tuple[str, bytes]]:
    """Path -> (content type, bytes). The page has an image for each slot, the lines of ``card`` and the ``notes``.

    ``counts`` are the rules of what is counted and the shape of the camera's picture, ``scene``: a simulated scene has
    its place.
    """
    page = _PAGE.format(
        notes="".join("<p class=note>{}</p>".format(escape(note)) for note in notes),
        pictures=_SENT * scene + "".join(_PICTURE.format(slot, slot + 1) for slot in range(slots)),
        scene=_SCENE * scene,
        counts="" if counts is None else _counts(*counts),
        card="".join("<dt>{}</dt><dd>{}</dd>".format(escape(name), escape(text)) for name, text in card),
        bars="".join(_BAR.format(*bar) for bar in _BARS),
    )
    return {
        "/": ("text/html; charset=utf-8", page.encode("utf-8")),
        "/page.js": ("text/javascript; charset=utf-8", SCRIPT),
        "/icon.png": ("image/png", encode(_ICON)),
        "/page.css": ("text/css; charset=utf-8", STYLE),
    }


def _counts(rules: CountRules, shape: Sequence[int]) -> str:
    """A map of zones and lines, and a row for each number of a period, in the order of ``rules.names``."""
    places = [("gon", zone.corners, zone.name) for zone in rules.zones]
    places += [("line", (line.start, line.end), line.name) for line in rules.lines]
    drawn = (
        _PLACE.format(kind, " ".join("{1:g},{0:g}".format(*one) for one in points), points[0], escape(name))
        for kind, points, name in places
    )
    row = '<tr><th scope="row">{}</th><td class="count">-</td></tr>'
    rows = (row.format(escape(" ".join(names))) for names in rules.names)
    return _COUNTS.format(*shape[:2], places="".join(drawn), rows="".join(rows))


# The privacy card of a signed bundle, in a few lines for people to read.


def card_lines(
    manifest: Optional[Manifest], audit: Optional[Dict[str, Any]], *, artefact: str = "", device: str = CPU
) -> List[Tuple[str, str]]:
    """Pairs of a heading and a text. ``audit`` is the bundle's audit document, None where there is none.

    ``artefact`` runs on ``device``. Only an audit on an accelerator describes that accelerator's output.
    """
    if manifest is None:
        return [("privacy card", "none: this stream has no manifest")]
    perturber = manifest.perturber
    lines = [
        ("bundle", manifest.name),
        ("meant to be kept", perturber.target),
        ("meant to be hidden", perturber.sensitive),
        ("how", perturber.kind),
    ]
    if perturber.substituted:
        lines.append(("what is sent", "records of other people, put in the place of each reading"))
    if manifest.development:
        lines.append(("development bundle", "signed by a throw-away key; not for real data"))
    if audit is None:
        return lines + [("audit", "not audited: what it leaks was not measured")]
    shown: Mapping[str, Any] = audit
    covers = "artefact {}".format(audit["artefact"])
    if device != CPU:
        parts = audits_of(audit, artefact, device, current_place())
        if not parts:
            text = "not measured: what leaks when {} runs on {}; measured: what leaks on a workstation's processor"
            return lines + [("audit", text.format(artefact, device))]
        shown = max(parts, key=lambda part: best_attack(part)["value"])
        covers = "artefact {} on {}".format(artefact, device)
    judged, best, chance = shown["verdict"], best_attack(shown), chances(shown)
    low, high = best["interval"]
    return lines + [
        ("verdict of the audit", ": ".join(filter(None, (judged["word"], judged["line"]))) if judged else _EARLIER),
        (
            "best attack found",
            "guesses {} correctly {} of the time (95 %: {} to {}); a stronger attack may exist".format(
                perturber.sensitive, _share(best["value"]), _share(low), _share(high)
            ),
        ),
        (
            "chance",
            "an attacker who knows {} alone: {} by the public prior, {} by counting".format(
                perturber.target, _share(chance["prior"]), _share(chance["majority"])
            ),
        ),
        ("kept", "{}: {} correct".format(perturber.target, _share(kept(shown)["value"]))),
        ("what this covers", "single frames, and {}; see the threat model".format(covers)),
    ]


_EARLIER = "none: it was made before verdicts by the upper end of intervals, so it shows an estimate only"


def _share(value: float) -> str:
    return "{:.1f} %".format(100.0 * value)
