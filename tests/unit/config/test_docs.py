"""The two renderings of the table."""

from __future__ import annotations

from config.docs import WITHOUT_EFFECT_YET, keys_in_use, render_effective, render_reference
from config.keys import BROKER_KEYS, GROUP_KEYS, TOPIC_KEYS
from config.load import load


def test_reference_has_each_key():
    text = render_reference()
    for row in [*BROKER_KEYS.values(), *TOPIC_KEYS.values(), *GROUP_KEYS.values()]:
        assert f"**`{row.name}`** — {row.doc}" in text


def test_keys_without_effect_are_marked():
    used = keys_in_use()
    assert ("broker", "log.roll.hours") in used and ("topic", "segment.ms") in used
    assert ("broker", "log.retention.minutes") in used and ("topic", "remote.storage.enable") not in used
    assert ("broker", "ssl.keystore.location") not in used
    lines = render_reference().splitlines()
    facts = {line.split("`")[1]: lines[number + 1] for number, line in enumerate(lines) if line.startswith("**`")}
    assert facts["ssl.keystore.location"].endswith("*accepted*")
    assert "*accepted*" not in facts["socket.request.max.bytes"]


def test_every_own_key_has_an_effect_or_says_that_it_has_none_yet():
    known = {name for _, name in keys_in_use()} | WITHOUT_EFFECT_YET["broker"]
    assert {name for name in BROKER_KEYS if name.startswith("odradek.")} <= known


def test_effective_values_name_their_origin_and_hide_secrets():
    overrides = ["ssl.key.password=hunter2", "sasl.jsas.config=hunter3", "listener.name.a.ssl.key.password=hunter4"]
    resolver = load(None, {"KAFKA_NUM_PARTITIONS": "3"}, overrides).resolver
    lines = render_effective(resolver).splitlines()
    assert "num.partitions=3  # environment KAFKA_NUM_PARTITIONS" in lines
    assert "log.dirs=./data  # embedded default" in lines
    assert "log.retention.hours=168  # default" in lines
    assert "ssl.key.password=[hidden]  # --override" in lines
    assert "sasl.jsas.config=[hidden]  # --override, unknown key" in lines
    assert "listener.name.a.ssl.key.password=[hidden]  # --override" in lines
    assert "hunter" not in "".join(lines)
    names = [line.partition("=")[0] for line in lines]
    assert names == sorted(set(names))
