"""Prints the counts of people that a stream sends over MQTT, each period once: python receive.py HOST PORT TOPIC"""

import json
import sys

import paho.mqtt.client as mqtt

host, port, topic = sys.argv[1], int(sys.argv[2]), sys.argv[3]
seen = set()


def take(_client, _data, message):
    count = json.loads(message.payload)
    if count["id"] not in seen:  # a record may come twice
        seen.add(count["id"])
        print(json.dumps({key: count[key] for key in ("period", "state", "lines", "zones")}), flush=True)


client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2)
client.on_connect = lambda *_: client.subscribe(topic + "/count", qos=1)
client.on_message = take
client.connect(host, port)
client.loop_forever()
