"""Parsers of command lines in which a mistake is a line, not a page.

Options are Kafka's own, and as in Kafka's tools their names are written out: `--delay 5` is not `--delay-ms 5`.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import NoReturn

from broker.cli.errors import CommandError
from broker.version import VERSION

HELP_WIDTH = 100
MISUSED_TOOL = 1
"""The exit status of Kafka's tools for arguments they do not understand."""
MISUSED_BROKER = 2
"""That of `serve` and `config`: a supervisor can tell a wrong command line from a failed start. `verify` has it too."""

MAX_DIGITS = 100
"""Python refuses to read numbers of thousands. So many are beyond every range, also without the others."""


class _Help(argparse.HelpFormatter):
    """The usual layout, in a width that nothing has to be loaded for: one is made for every option that is added."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=HELP_WIDTH)


class Parser(argparse.ArgumentParser):
    """A parser of one command."""

    def __init__(self, name: str, text: str, *, misuse_status: int = MISUSED_TOOL) -> None:
        super().__init__(prog=f"odradek {name}", description=text, formatter_class=_Help, allow_abbrev=False)
        self._misuse_status = misuse_status
        self.add_argument("--version", action="version", version=VERSION, help="print the version and exit")

    def error(self, message: str) -> NoReturn:
        """Refuse the command line."""
        raise CommandError(f"{message} (see `{self.prog} --help`)", status=self._misuse_status)


def field_of(option: str) -> str:
    """Return the name under which the value of an option is found."""
    return option.replace("-", "_")


def has(options: argparse.Namespace, name: str) -> bool:
    """Tell whether an option was given: a flag that is set, or any value."""
    value = getattr(options, field_of(name))
    return value is not None and value is not False and value != []


def key_values(option: str, texts: Sequence[str]) -> dict[str, str]:
    """Read what an option was given, each time a `key=value`. Raises: CommandError."""
    pairs = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise CommandError(f"Invalid value {text[:80]!r} for option {option}: expected key=value")
        pairs[name.strip()] = value
    return pairs


def check_one_action(parser: Parser, options: argparse.Namespace, *actions: str) -> str:
    """Return which of the actions was asked for; it must be exactly one."""
    given = [action for action in actions if has(options, action)]
    if len(given) != 1:
        *most, last = (f"--{action}" for action in actions)
        parser.error(f"Command must include exactly one action: {', '.join(most)} or {last}")
    return given[0]


def check_fits(parser: Parser, options: argparse.Namespace, action: str, fitting: dict[str, tuple[str, ...]]) -> None:
    """Refuse options that were given and do not go with the action; `fitting` names the actions of each."""
    for name, actions in fitting.items():
        if has(options, name) and action not in actions:
            parser.error(f'Option "[{name}]" can\'t be used with option "[{action}]"')


def check_required(parser: Parser, options: argparse.Namespace, *names: str) -> None:
    """Refuse a command line without one of the options."""
    for name in names:
        if not has(options, name):
            parser.error(f'Missing required argument "[{name}]"')


def check_apart(parser: Parser, options: argparse.Namespace, name: str, *others: str) -> None:
    """Refuse an option beside any of the others."""
    for other in others:
        if has(options, name) and has(options, other):
            parser.error(f'Option "[{name}]" can\'t be used with option "[{other}]"')


def whole_number(text: str) -> int | None:
    """Read a number of decimal digits, None if there is anything else; of very many digits the first ones will do."""
    return int(text[:MAX_DIGITS]) if text.isdecimal() else None
