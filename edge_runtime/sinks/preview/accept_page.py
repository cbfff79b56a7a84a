"""The page on which an operator taps what is really there. It shows nothing that leaves: that would lead the hand."""

from html import escape
from typing import Dict, Sequence, Tuple

_BUTTON = '<button type="button" data-tap="{}">{}</button>'

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>EdgeVeil acceptance</title>
<link rel="stylesheet" href="page.css">
<link rel="stylesheet" href="accept.css">
<link rel="icon" href="icon.png">
</head>
<body>
<main>
<h1>Acceptance <span id="state" role="status">...</span></h1>
<p class="soft">Look at the place, not at a screen, and tap what you see. Only sums are kept: <a
href="acceptance.json">acceptance.json</a>.</p>
{buttons}
<p><button type="button" id="undo" data-tap="undo=1">Take the last tap back</button></p>
</main>
<script src="accept.js"></script>
</body>
</html>
"""

_SCRIPT = b"""'use strict';
const at = (id) => document.getElementById(id);
async function tap(words) {
  try {
    const answer = await fetch('tap?' + words, {method: 'POST', headers: {'X-EdgeVeil': 'tap'}, cache: 'no-store'});
    show(await answer.json());
  } catch (error) {
    at('state').textContent = 'not reached';
  }
}
function show(now) {
  const left = Math.ceil(now.left_s / 60) + ' min left, ' + now.taps + ' taps';
  at('state').textContent = now.left_s === 0 ? 'over, ' + now.taps + ' taps' : (now.taken ? '' : 'not taken; ') + left;
  for (const button of document.querySelectorAll('button')) button.disabled = now.left_s === 0;
}
for (const button of document.querySelectorAll('button')) {
  button.addEventListener('click', () => tap(button.dataset.tap));
}
async function poll() {
  try {
    show(await (await fetch('accept.state', {cache: 'no-store'})).json());
  } catch (error) {
    at('state').textContent = 'not reached';
  }
  setTimeout(poll, 5000);
}
poll();
"""

_STYLE = b"""section{margin:0 0 1.2rem}
button{font:inherit;min-width:9rem;min-height:3.5rem;margin:0 .6rem .6rem 0;padding:.4rem 1rem;color:var(--ink);
background:var(--state);border:1px solid var(--line);border-radius:.5rem}
#undo{background:var(--page)}button:disabled{opacity:.5}
"""


def files(lines: Sequence[str], target: str, classes: Sequence[str]) -> Dict[str, Tuple[str, bytes]]:
    """Path -> (content type, bytes): a button for each way over each line, and one for each class of ``target``."""
    parts = []
    for line in lines:
        ways = [_BUTTON.format("line={}&amp;way={}".format(escape(line), way), way) for way in ("in", "out")]
        parts.append(_section(line, ways))
    if classes:
        named = [_BUTTON.format("y={}".format(number), escape(name)) for number, name in enumerate(classes)]
        parts.append(_section(target, named))
    page = _PAGE.format(buttons="".join(parts))
    return {
        "/accept": ("text/html; charset=utf-8", page.encode("utf-8")),
        "/accept.js": ("text/javascript; charset=utf-8", _SCRIPT),
        "/accept.css": ("text/css; charset=utf-8", _STYLE),
    }


def _section(title: str, buttons: Sequence[str]) -> str:
    return "<section><h2>{}</h2>{}</section>".format(escape(title), "".join(buttons))
