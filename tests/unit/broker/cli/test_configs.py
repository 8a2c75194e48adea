"""What `odradek configs` makes of its arguments and of numbers."""

from __future__ import annotations

import pytest

from broker.cli.config_quotas import java_double
from broker.cli.configs import parse_configs
from broker.cli.errors import CommandError
from tests.harness import cli


@pytest.mark.parametrize(
    ("text", "configs"),
    [
        ("a=1", {"a": "1"}),
        ("a=1,b=[2,3],c=[4]", {"a": "1", "b": "2,3", "c": "4"}),
        (" a = 1 , b=", {"a": "1", "b": ""}),
        ("s=[iterations=8192,password=x]", {"s": "iterations=8192,password=x"}),
        ("a=b=c", {"a": "b=c"}),
    ],
)
def test_brackets_hold_values_together(text, configs):
    assert parse_configs(text) == configs


@pytest.mark.parametrize("text", ["a", "=1", "a=1,b"])
def test_what_is_no_key_with_a_value_is_refused(text):
    with pytest.raises(CommandError, match="all configs to be added must be in the format"):
        parse_configs(text)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.0"),
        (1024.0, "1024.0"),
        (50.5, "50.5"),
        (9999999.0, "9999999.0"),
        (1e7, "1.0E7"),
        (10485760.0, "1.048576E7"),
        (123456789012.0, "1.23456789012E11"),
        (1.5e300, "1.5E300"),
        (0.001, "0.001"),
        (0.0001, "1.0E-4"),
        (-12345678.9, "-1.23456789E7"),
    ],
)
def test_numbers_are_written_as_java_writes_them(value, text):
    assert java_double(value) == text


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--describe"], "At least one entity type must be specified"),
        (["--describe", "--entity-type", "cats"], "Invalid entity type cats"),
        (["--describe", "--topic", "t", "--user", "u"], "Only 'users' and 'clients'"),
        (["--describe", "--topic", "t", "--entity-name", "x"], "should not be used in conjunction"),
        (["--describe", "--entity-type", "topics", "--entity-default"], "--entity-default must not be specified"),
        (["--describe", "--entity-type", "broker-loggers"], "An entity name must be specified with --describe"),
        (["--alter", "--broker", "one", "--add-config", "a=b"], "must be a valid integer broker id, but it is: one"),
        (["--alter", "--entity-type", "users", "--add-config", "a=b"], "An entity-name or default entity must be"),
        (["--alter", "--topic", "t"], "At least one of --add-config"),
        (["--describe", "--alter", "--topic", "t"], "exactly one action: --describe or --alter"),
        (["--describe", "--topic", "t", "--bootstrap-controller", "x:1"], "--bootstrap-controller is not supported"),
    ],
)
def test_arguments_that_make_no_sense_are_refused_before_anything_is_connected(arguments, reason):
    assert reason in cli.refusal("configs", *arguments, bootstrap="127.0.0.1:1")
