"""`odradek configs`: describe and change configs and quotas, with the options of kafka-configs.sh.

What is meant is one entity type with a name, with its default, or all of it; users and clients may come together. The
types are Kafka's. Deliberate differences: what fails is one line on standard error; a value may hold `=` without
brackets around it; all of a type comes sorted by name.
"""

from __future__ import annotations

import re
from argparse import SUPPRESS, Namespace
from collections.abc import Sequence
from typing import NamedTuple, NoReturn

from broker.cli.errors import CommandError
from broker.cli.imports import imported
from broker.cli.online import add_connection_options, connected, read_property_file
from broker.cli.options import Parser, check_fits, check_one_action, field_of

TOPICS, CLIENTS, USERS, BROKERS, LOGGERS = "topics", "clients", "users", "brokers", "broker-loggers"
IPS, CLIENT_METRICS, GROUPS = "ips", "client-metrics", "groups"
TYPES = (TOPICS, CLIENTS, USERS, BROKERS, IPS, CLIENT_METRICS, GROUPS, LOGGERS)

FLAGS = {
    "topic": TOPICS,
    "client": CLIENTS,
    "user": USERS,
    "broker": BROKERS,
    "broker-logger": LOGGERS,
    "ip": IPS,
    "client-metrics": CLIENT_METRICS,
    "group": GROUPS,
}
DEFAULT_FLAGS = {"client-defaults": CLIENTS, "user-defaults": USERS, "broker-defaults": BROKERS, "ip-defaults": IPS}
WITH_DEFAULT = (CLIENTS, USERS, BROKERS, IPS)
QUOTA_TYPES = (CLIENTS, USERS, IPS)

DEFAULT_NAME = ""
OUTSIDE_BRACKETS = r"(?=[^\]]*(?:\[|$))"


class Entity(NamedTuple):
    """One type and one name: empty for the default of the type, None for all of it."""

    type: str
    name: str | None

    @property
    def singular(self) -> str:
        """Return the type as Kafka's tool prints it beside a name."""
        return self.type.removesuffix("s")


def run(arguments: Sequence[str]) -> int:
    """Do what the options say."""
    parser = _parser()
    options = parser.parse_args(arguments)
    action = check_one_action(parser, options, "describe", "alter")
    check_fits(parser, options, action, dict.fromkeys(("add-config", "add-config-file", "delete-config"), ("alter",)))
    entities = _entities(options)
    module = "broker.cli.config_quotas" if entities[0].type in QUOTA_TYPES else "broker.cli.config_resources"
    if action == "describe":
        _check_describe(options, entities)
        with connected(options) as client:
            imported(module).describe(client, entities, options)
        return 0
    added, deleted = _changes(options, entities)
    with connected(options) as client:
        imported(module).alter(client, entities, added, deleted)
    first = entities[0]
    if options.json:
        imported("broker.cli.output").print_json({"entities": [[entity.type, entity.name] for entity in entities]})
    elif first.name:
        print(f"Completed updating config for {first.singular} {first.name}.")
    else:
        print(f"Completed updating default config for {first.type} in the cluster.")
    return 0


def _parser() -> Parser:
    parser = Parser("configs", "Describe and change configs of topics, brokers and groups, and quotas.")
    add_connection_options(parser)
    add = parser.add_argument
    add("--describe", action="store_true", help="print configs that were set while the broker ran, and quotas")
    add("--alter", action="store_true", help="change configs or quotas")
    add("--all", action="store_true", help="print all configs, also static ones and defaults")
    add("--entity-type", action="append", default=[], metavar="type", help=f"one of {', '.join(TYPES)}")
    add("--entity-name", action="append", default=[], dest="entity_names", metavar="name", help="the name within it")
    add(
        "--entity-default",
        action="append_const",
        const=DEFAULT_NAME,
        dest="entity_names",
        help="what holds where no name has a value of its own",
    )
    for flag, type_ in FLAGS.items():
        add(f"--{flag}", metavar="name", help=f"short for --entity-type {type_} --entity-name")
    for flag, type_ in DEFAULT_FLAGS.items():
        add(f"--{flag}", action="store_true", help=f"short for --entity-type {type_} --entity-default")
    add("--add-config", metavar="key=value,key=[a,b]", help="set these; brackets hold values with commas")
    add("--add-config-file", metavar="file", help="set those of a properties file")
    add("--delete-config", action="append", default=[], metavar="key,key", help="go back to what holds otherwise")
    add("--force", action="store_true", help=SUPPRESS)
    add("--bootstrap-controller", help=SUPPRESS)
    return parser


# --- entities


def _entities(options: Namespace) -> list[Entity]:
    """Pair types with names, in the order of the command line. Raises: CommandError."""
    if options.bootstrap_controller is not None:
        raise CommandError("--bootstrap-controller is not supported: brokers answer for the controller")
    flagged = [(type_, getattr(options, field_of(flag))) for flag, type_ in FLAGS.items()]
    flagged = [(type_, name) for type_, name in flagged if name is not None]
    flagged += [(type_, DEFAULT_NAME) for flag, type_ in DEFAULT_FLAGS.items() if getattr(options, field_of(flag))]
    types = [*options.entity_type, *(type_ for type_, _ in flagged)]
    names: list[str | None] = [*options.entity_names, *(name for _, name in flagged)]
    _check_types(types)
    if flagged and (options.entity_type or options.entity_names):
        raise CommandError("--entity-{type,name,default} should not be used in conjunction with specific entity flags")
    if len(names) > len(types):
        raise CommandError("More entity names specified than entity types")
    entities = [Entity(type_, name) for type_, name in zip(types, [*names, *([None] * len(types))], strict=False)]
    for entity in entities:
        if entity.type in (BROKERS, LOGGERS) and entity.name and not re.fullmatch(r"-?\d+", entity.name):
            _refuse(f"The entity name for {entity.type} must be a valid integer broker id, but it is: {entity.name}")
    return entities


def _check_types(types: list[str]) -> None:
    again = [type_ for index, type_ in enumerate(types) if type_ in types[:index]]
    if again:
        _refuse(f"Duplicate entity type(s) specified: {','.join(again)}")
    for type_ in types:
        if type_ not in TYPES:
            _refuse(f"Invalid entity type {type_}, the entity type must be one of {', '.join(TYPES)}")
    if not types:
        _refuse("At least one entity type must be specified")
    if len(types) > 1 and set(types) != {USERS, CLIENTS}:
        _refuse("Only 'users' and 'clients' entity types may be specified together")


def _check_describe(options: Namespace, entities: list[Entity]) -> None:
    first = entities[0]
    if first.name == DEFAULT_NAME and first.type not in WITH_DEFAULT:
        _refuse(f"--entity-default must not be specified with --describe of {first.type}")
    if first.type == LOGGERS and first.name is None:
        _refuse(f"An entity name must be specified with --describe of {first.type}")


# --- changes


def _changes(options: Namespace, entities: list[Entity]) -> tuple[dict[str, str], list[str]]:
    """Return what is to be set and what to be deleted."""
    for entity in entities:
        if not entity.name and entity.type not in WITH_DEFAULT:
            _refuse(f"An entity name must be specified with --alter of {entity.type}")
    if all(entity.name is None for entity in entities):
        _refuse("An entity-name or default entity must be specified with --alter of users, clients, brokers or ips")
    if any(entity.name is None for entity in entities):
        _refuse("An entity name must be specified for every entity type")
    if options.add_config is not None and options.add_config_file is not None:
        _refuse("Only one of --add-config or --add-config-file must be specified")
    deleted = [key.strip() for keys in options.delete_config for key in keys.split(",") if key.strip()]
    if options.add_config is None and options.add_config_file is None and not deleted:
        _refuse("At least one of --add-config, --add-config-file, or --delete-config must be specified with --alter")
    return read_property_file(options.add_config_file) | parse_configs(options.add_config or ""), deleted


def parse_configs(text: str) -> dict[str, str]:
    """Take `a=1,b=[2,3]` apart; brackets only hold together. Raises: CommandError."""
    configs = {}
    for part in filter(None, re.split(f",{OUTSIDE_BRACKETS}", text)):
        key, equals, value = part.partition("=")
        if not equals or not key.strip():
            _refuse(
                "Invalid entity config: all configs to be added must be in the format "
                '"key=val" or "key=[val1,val2]" to group values which contain commas.'
            )
        configs[key.strip()] = re.sub(r"[\[\]]", "", value).strip()
    return configs


def _refuse(message: str) -> NoReturn:
    raise CommandError(message)
