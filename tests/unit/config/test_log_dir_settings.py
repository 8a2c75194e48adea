"""Settings of log directories: moves between them, and those that take no new partitions."""

from __future__ import annotations

import logging

import pytest

from config.broker_changes import checked_broker_configs, usable_layer
from config.build import cordoned_log_dirs, move_config
from config.dynamic import describe_broker
from config.errors import InvalidConfig
from config.load import load
from config.resolve import ConfigSource, Resolver
from config.sources import SourcedValue
from config.views import LONG_MAX, MoveConfig

RATE, KIP_RATE = "replica.alter.log.dirs.io.max.bytes.per.second", "intra.broker.throttled.rate"
THREADS, KIP_THREADS = "num.replica.alter.log.dirs.threads", "num.replica.alter.movelog.dirs.threads"
CORDONED = "cordoned.log.dirs"
DIRS = {"log.dirs": "/d1,/d2"}


def resolver(static=None, of_broker=None, of_default=None):
    given = {name: SourcedValue(text, "test") for name, text in {**DIRS, **(static or {})}.items()}
    return Resolver(given, of_broker, of_default)


def test_nothing_set_moves_with_one_thread_a_directory_and_no_limit():
    assert move_config(resolver()) == MoveConfig(threads=2, max_bytes_per_second=LONG_MAX)


@pytest.mark.parametrize(
    ("static", "threads"),
    [({THREADS: "5"}, 5), ({KIP_THREADS: "4"}, 4), ({KIP_THREADS: "4", THREADS: "5"}, 5), ({THREADS: "0"}, 1)],
)
def test_both_spellings_set_the_number_of_threads_and_kafkas_wins(static, threads):
    assert move_config(resolver(static)).threads == threads


@pytest.mark.parametrize(
    ("of_broker", "of_default", "rate"),
    [
        ({RATE: "5"}, {RATE: "6"}, 5),
        ({}, {RATE: "6"}, 6),
        ({KIP_RATE: "7"}, {}, 7),
        ({}, {KIP_RATE: "8"}, 8),
        ({KIP_RATE: "7", RATE: "5"}, {}, 5),
        ({KIP_RATE: "7"}, {RATE: "6"}, 7),
        ({RATE: "0"}, {}, 0),
    ],
)
def test_the_limit_of_moves_comes_from_the_broker_then_the_default_then_the_other_spelling(of_broker, of_default, rate):
    assert move_config(resolver({}, of_broker, of_default)).max_bytes_per_second == rate


def test_a_described_limit_shows_the_spelling_that_set_it():
    [entry] = describe_broker(resolver({}, {KIP_RATE: "7", RATE: "5"}, {KIP_RATE: "9"}), [RATE])
    assert (entry.value, entry.source, entry.read_only) == ("5", ConfigSource.DYNAMIC_BROKER, False)
    assert [(link.name, link.text) for link in entry.synonyms] == [(RATE, "5"), (KIP_RATE, "7"), (KIP_RATE, "9")]
    [other] = describe_broker(resolver({}, {KIP_RATE: "7"}), [RATE, KIP_RATE])
    assert (other.name, other.value) == (KIP_RATE, "7")
    assert [(link.name, link.text) for link in other.synonyms] == [(KIP_RATE, "7")]


def test_the_kips_spellings_are_described_only_where_they_are_set():
    names = {entry.name for entry in describe_broker(resolver())}
    assert THREADS in names
    assert not names & {RATE, KIP_RATE, KIP_THREADS}


def test_static_limits_are_ignored_with_a_warning():
    loaded = load(None, {}, [f"{RATE}=5", f"{KIP_RATE}=6", "leader.replication.throttled.rate=7"])
    assert move_config(loaded.resolver).max_bytes_per_second == LONG_MAX
    assert [line.split(" ")[0] for line in loaded.warnings] == [RATE, KIP_RATE, "leader.replication.throttled.rate"]


@pytest.mark.parametrize("name", [RATE, KIP_RATE, "leader.replication.throttled.rate"])
@pytest.mark.parametrize("is_default", [True, False])
def test_limits_may_be_set_for_one_broker_and_for_all(name, is_default):
    assert checked_broker_configs({name: "5"}, resolver(), is_default=is_default) == {name: "5"}
    with pytest.raises(InvalidConfig, match=f"Invalid value -1 for configuration {name}: Value must be at least 0"):
        checked_broker_configs({name: "-1"}, resolver(), is_default=is_default)


EMPTY_VALUE = "Configuration 'cordoned.log.dirs' values must not be empty."
NOT_ALONE = "requirement failed: When cordoned.log.dirs is set to *, it must not contain other values"
MISSING = "requirement failed: All entries in cordoned.log.dirs must be present in log.dirs or log.dir. Missing entries"
REFUSED = [
    ("/d1,", EMPTY_VALUE),
    (",", EMPTY_VALUE),
    ("*,/d1", NOT_ALONE),
    ("/nope", f"{MISSING} : /nope"),
    ("/d1/", f"{MISSING} : /d1/"),
    ("/nope,/d1,/nada,/nope", f"{MISSING} : /nope, /nada"),
]


@pytest.mark.parametrize(("text", "message"), REFUSED)
def test_what_cannot_be_cordoned_is_refused_while_the_broker_runs(text, message):
    with pytest.raises(InvalidConfig) as refusal:
        checked_broker_configs({CORDONED: text}, resolver(), is_default=False)
    assert refusal.value.message == message


@pytest.mark.parametrize(("text", "message"), REFUSED)
def test_what_cannot_be_cordoned_is_refused_at_start(text, message):
    with pytest.raises(InvalidConfig) as refusal:
        load(None, {}, ["log.dirs=/d1,/d2", f"{CORDONED}={text}"])
    assert message in refusal.value.message


@pytest.mark.parametrize(
    ("text", "stored", "cordoned"),
    [
        ("/d1", "/d1", {"/d1"}),
        (" /d1 ", "/d1", {"/d1"}),
        ("/d1,/d1", "/d1", {"/d1"}),
        ("/d2, /d1", "/d2,/d1", {"/d1", "/d2"}),
        ("*", "*", {"/d1", "/d2"}),
        ("*,*", "*", {"/d1", "/d2"}),
        ("", "", set()),
        (" ", "", set()),
    ],
)
def test_entries_of_log_dirs_or_a_star_are_cordoned(text, stored, cordoned):
    values = checked_broker_configs({CORDONED: text}, resolver(), is_default=False)
    assert values == {CORDONED: stored}
    assert cordoned_log_dirs(resolver({}, values)) == cordoned


def test_entries_are_compared_as_written_and_cordon_the_directory_they_mean():
    dirs = {"log.dirs": "/x/../d1,/d2/"}
    assert cordoned_log_dirs(load(None, {}, [f"log.dirs={dirs['log.dirs']}", f"{CORDONED}=/d2/"]).resolver) == {"/d2"}
    assert cordoned_log_dirs(resolver({**dirs, CORDONED: "*"})) == {"/d1", "/d2"}


def test_log_dir_is_looked_at_where_there_is_no_log_dirs():
    loaded = load(None, {}, ["log.dir=/a", f"{CORDONED}=/a"])
    assert cordoned_log_dirs(loaded.resolver) == {"/a"}


def test_an_empty_dynamic_value_uncordons_what_a_static_star_cordons():
    assert cordoned_log_dirs(resolver({CORDONED: "*"})) == {"/d1", "/d2"}
    assert cordoned_log_dirs(resolver({CORDONED: "*"}, {CORDONED: ""})) == set()


def test_directories_are_cordoned_for_one_broker_only():
    with pytest.raises(InvalidConfig, match="broker id must be specified"):
        checked_broker_configs({CORDONED: "/d1"}, resolver(), is_default=True)


def test_a_stored_value_of_an_earlier_log_dirs_hinders_no_other_change(caplog):
    stale = {CORDONED: "/gone"}
    with caplog.at_level(logging.WARNING):
        assert usable_layer(stale, is_default=False) == stale
    now = resolver({}, stale)
    assert checked_broker_configs({**stale, "background.threads": "11"}, now, is_default=False)
    with pytest.raises(InvalidConfig, match="Missing entries : /gone, /too"):
        checked_broker_configs({CORDONED: "/gone,/too"}, now, is_default=False)
