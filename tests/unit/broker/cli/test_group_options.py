"""Which combinations of options `odradek groups` and `odradek consume` refuse, and what the others come to."""

from __future__ import annotations

import pytest

from broker.cli.consume_options import parse as parse_consume
from broker.cli.errors import CommandError
from broker.cli.group_options import parse as parse_groups
from broker.client.consumer import Start
from broker.client.log_offsets import EARLIEST, LATEST


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("", "exactly one action"),
        ("--list --describe --group g", "exactly one action"),
        ("--describe", "--group, --all-groups"),
        ("--describe --group g --all-groups", "cannot be used with --all-groups"),
        ("--describe --group g --members --state", "at most one"),
        ("--describe --group g --state stable", "does not take a value"),
        ("--describe --group g --topic t", "cannot be used with --describe"),
        ("--describe --group g --type", "goes with --list only"),
        ("--list --members", "goes with --describe only"),
        ("--list --group g", "cannot be used with --list"),
        ("--delete", "--group, --all-groups"),
        ("--delete --group g --topic t", "--delete-offsets takes topics"),
        ("--delete-offsets --group g", "one --group, and --topic"),
        ("--delete-offsets --group g --group h --topic t", "one --group, and --topic"),
        ("--reset-offsets --group g --topic t", "requires one of"),
        ("--reset-offsets --group g --topic t --to-latest --shift-by 1", "cannot be used with"),
        ("--reset-offsets --group g --to-latest", "reset scopes"),
        ("--reset-offsets --group g --topic t --to-latest --dry-run --execute", "only accepts one of"),
        ("--list --timeout soon", "invalid int value"),
    ],
)
def test_groups_refuses_what_makes_no_sense_in_one_line(words: str, reason: str):
    with pytest.raises(CommandError, match=reason) as refused:
        parse_groups(words.split())
    assert refused.value.status == 1 and "\n" not in refused.value.message


@pytest.mark.parametrize(
    ("words", "scenario"),
    [("--to-offset 0", "to_offset"), ("--shift-by -3", "shift_by"), ("--from-file f", "from_file")],
)
def test_a_scenario_is_found_by_the_option_that_is_given(words: str, scenario: str):
    options = parse_groups(f"--reset-offsets --group g --topic t {words}".split())
    assert (options.action, options.scenario) == ("reset-offsets", scenario)


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("", "Exactly one"),
        ("--topic t --include t", "Exactly one"),
        ("--topic t --offset 1", "partition is required"),
        ("--include t --partition 1", "topic is required"),
        ("--topic t --partition 1 --offset first", "'earliest', 'latest'"),
        ("--topic t --partition 1 --offset earliest --from-beginning", "cannot be specified together"),
        ("--topic t --partition 1 --group g", "cannot be specified together"),
        ("--topic t --group g --command-property group.id=h", "do not match"),
        ("--topic t --from-beginning --command-property auto.offset.reset=latest", "simultaneously"),
        ("--topic t --command-property auto.offset.reset=none", "earliest or latest"),
        ("--topic t --command-property isolation.level=none", "isolation.level"),
        ("--topic t --formatter-property print.key", "key=value"),
        ("--topic t --formatter kafka.tools.OffsetsMessageFormatter", "dump-log"),
        ("--topic t --command-config /nowhere", "Cannot read"),
    ],
)
def test_consume_refuses_what_makes_no_sense_in_one_line(words: str, reason: str):
    with pytest.raises(CommandError, match=reason) as refused:
        parse_consume(words.split())
    assert refused.value.status == 1 and "\n" not in refused.value.message


@pytest.mark.parametrize(
    ("words", "start"),
    [
        ("--topic t", Start(LATEST)),
        ("--topic t --from-beginning", Start(EARLIEST)),
        ("--topic t --command-property auto.offset.reset=earliest", Start(EARLIEST)),
        ("--topic t --partition 0 --offset latest", Start(LATEST)),
        ("--topic t --partition 0 --offset earliest", Start(EARLIEST)),
        ("--topic t --partition 0 --offset 7", Start(EARLIEST, 7)),
    ],
)
def test_reading_begins_where_the_options_say(words: str, start: Start):
    assert parse_consume(words.split())[1].start == start


def test_the_group_and_whether_it_hears_of_offsets_may_stand_in_properties():
    words = "--topic t --consumer-property group.id=g --consumer-property enable.auto.commit=false"
    plan = parse_consume(words.split())[1]
    assert (plan.group, plan.commits) == ("g", False)
