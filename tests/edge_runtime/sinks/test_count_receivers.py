"""What docs/how-to/counts offers does what it says: the receiver, the Node-RED flow and the Grafana dashboard."""

import json
import re
import subprocess
import sys

import pytest

from edgeveil.edge_runtime.ipc.counters import Counters
from edgeveil.edge_runtime.manifest.count import CountRules, Line, Zone
from edgeveil.edge_runtime.outside import metrics
from edgeveil.edge_runtime.sinks.count_report import CountForm, CountReport
from edgeveil.edge_runtime.sinks.mqtt import MqttSink
from tests.support import network_receivers, programs
from tests.support.checkout import ROOT

pytestmark = pytest.mark.programs

HERE = ROOT / "docs/how-to/counts"
RULES = CountRules([Line("door", (0, 1), (9, 1))], [Zone("hall", [(0, 0), (0, 9), (9, 9)])], 10, [5.0], 16.0, None)
MANIFEST = network_receivers.MANIFEST._replace(counts=RULES)
REPORT = CountReport(7, "counted", [2, 1, 12, 0, 4], 3, 10**18)


@pytest.mark.cameras
def test_the_receiver_prints_each_period_once(tmp_path):
    programs.need("mosquitto")
    broker = network_receivers.Broker(tmp_path)
    listener = network_receivers.Listener(broker.port, "hall/door/#")
    words = [sys.executable, str(HERE / "receive.py"), "127.0.0.1", str(broker.port), "hall/door"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as receiver:
        sink = MqttSink(f"mqtt://127.0.0.1:{broker.port}/hall/door", network_receivers.OUTPUTS, MANIFEST, {})
        try:
            # A message that comes twice, until it is printed: then the receiver listens.
            once = CountForm(RULES, "hall").encode(REPORT, b"12345678", 0)
            while not network_receivers.eventually(lambda: _readable(receiver.stdout), 0.3):
                listener.client.publish("hall/door/count", once, qos=1)
                listener.client.publish("hall/door/count", once, qos=1)
            sink.write_count(REPORT._replace(period=8, values=None, state="missing"))
            sink.write(network_receivers.frame(0))
            first, second = (json.loads(receiver.stdout.readline()) for _ in range(2))
            assert network_receivers.eventually(lambda: listener.on("hall/door") != [])
        finally:
            receiver.kill()
            sink.close()
            listener.close()
            broker.kill()
    assert first == {
        "period": 7,
        "state": "counted",
        "lines": {"door": {"in": 2, "out": 1}},
        "zones": {"hall": {"occupancy": 12, "dwell": [0, 4]}},
    }
    assert (second["period"], second["state"]) == (8, "missing")
    assert len({len(payload) for payload in listener.on("hall/door/count")}) == 1
    assert len((HERE / "receive.py").read_text().splitlines()) <= 30


def _readable(pipe):
    import select

    return bool(select.select([pipe], [], [], 0)[0])


def test_the_flow_is_whole_and_its_function_takes_each_period_once():
    nodes = {node["id"]: node for node in json.loads((HERE / "node-red.json").read_text())}
    assert all(target in nodes for node in nodes.values() for wire in node.get("wires", []) for target in wire)
    assert all(node["z"] in nodes for node in nodes.values() if "z" in node)
    assert nodes["edgeveil_in"]["broker"] in nodes
    assert nodes["edgeveil_in"]["topic"].endswith("/count")
    form = CountForm(RULES, "hall")
    sent = [form.document(REPORT, "a-1"), form.document(REPORT, "a-1")]
    sent.append(form.document(REPORT._replace(values=None, state="missing"), "a-2"))
    run = f"""const kept = {{}}, context = {{get: k => kept[k], set: (k, v) => {{ kept[k] = v; }}}};
const each = msg => {{ {nodes["edgeveil_each"]["func"]} }};
console.log(JSON.stringify({json.dumps(sent)}.map(payload => each({{payload}}))));"""
    done = subprocess.run([programs.need("node"), "-e", run], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == [{"payload": {"people": 12, "lines": {"door": {"in": 2, "out": 1}}}}, None, None]


def metric_lines():
    """What /metrics has, of a service that counted, dropped and is ready."""
    inside, outside = Counters(), Counters()
    inside.add("drop:late")
    gauges = {"ready": 1.0, "fresh-age-seconds": 0.1}
    return [
        *metrics.lines(metrics.samples(inside.all(), outside.all(), {}, gauges)),
        *metrics.lines(metrics.count_samples(RULES, REPORT)),
        *metrics.lines(metrics.count_samples(RULES, REPORT._replace(state="spent", values=None))),
    ]


def test_the_dashboard_asks_for_what_the_metrics_page_has():
    board = json.loads((HERE / "grafana.json").read_text())
    panels, there = board["panels"], metric_lines()
    assert len({panel["id"] for panel in panels}) == len(panels)
    assert {panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24 for panel in panels} == {True}
    wanted = [target for panel in panels for target in panel["targets"]]
    assert len(wanted) > 6
    names = {re.match("[a-z_]+", line)[0] for line in there if line[0] != "#"}
    for target in wanted:
        assert set(re.findall("edgeveil_[a-z_]+", target["expr"])) <= names
        labels = set(re.findall(r"{{(\w+)}}", target["legendFormat"]))
        (metric,) = set(re.findall("edgeveil_[a-z_]+", target["expr"]))
        have = {key for line in there if line.startswith(metric + "{") for key in re.findall(r'(\w+)="', line)}
        assert labels <= have
    variables = {one["name"] for one in board["templating"]["list"]}
    assert set(re.findall(r"\$\{?(\w+)", json.dumps(panels))) <= variables


def test_the_metrics_page_has_the_counts_as_they_left():
    found = metric_lines()
    assert 'edgeveil_count{kind="line",place="door",what="in"} 2' in found
    assert 'edgeveil_count{kind="zone",place="hall",what="dwell-1"} 4' in found
    assert 'edgeveil_count_state{state="spent"} 1' in found
    assert len([line for line in found if line.startswith("edgeveil_count{")]) == len(RULES.names)
