"""Quotas of users, clients and addresses, and SCRAM credentials of users: what `odradek configs` does there."""

from __future__ import annotations

import re
from argparse import Namespace
from typing import Any

from broker.cli.config_credentials import MECHANISMS, alter_credentials, credentials_of
from broker.cli.configs import CLIENTS, DEFAULT_NAME, IPS, USERS, Entity
from broker.cli.errors import CommandError
from broker.cli.output import print_json
from broker.client.client import Client
from broker.client.errors import check
from protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    OpData,
    RequestEntityData,
    RequestEntryData,
)
from protocol.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest

ENTITY_TYPES = {USERS: "user", CLIENTS: "client-id", IPS: "ip"}
SHOWN_AS = {"user": "user-principal", "client-id": "client-id", "ip": "ip"}
QUOTAS = ("producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate")
IP_QUOTAS = ("connection_creation_rate",)
EXACT, DEFAULT, ANY = 0, 1, 2


def describe(client: Client, entities: list[Entity], options: Namespace) -> None:
    """Print the quotas of the entities, and where they are only users their credentials."""
    entries = _quotas(client, entities)
    credentials = []
    if not any(entity.type != USERS or entity.name == DEFAULT_NAME for entity in entities):
        credentials = credentials_of(client, entities[0].name)
    if options.json:
        quotas = [{"entity": names, "quotas": values} for names, values in entries]
        print_json({"quotas": quotas, "credentials": [{"user": user, **infos} for user, infos in credentials]})
        return
    for names, values in entries:
        who = ", ".join(
            f"the default {SHOWN_AS[type_]}" if names[type_] is None else f"{SHOWN_AS[type_]} '{names[type_]}'"
            for type_ in SHOWN_AS
            if type_ in names
        )
        print(f"Quota configs for {who} are {', '.join(f'{key}={java_double(values[key])}' for key in values)}")
    for user, infos in credentials:
        shown = ", ".join(f"{mechanism}=iterations={count}" for mechanism, count in infos.items())
        print(f"SCRAM credential configs for user-principal '{user}' are {shown}")


def alter(client: Client, entities: list[Entity], added: dict[str, str], deleted: list[str]) -> None:
    """Set and delete quotas, or credentials of a user, all or none."""
    is_scram = any(key in MECHANISMS for key in (*added, *deleted))
    _check_keys(entities, added, "added")
    _check_keys(entities, deleted, "deleted")
    if is_scram and any(key not in MECHANISMS for key in (*added, *deleted)):
        raise CommandError("Quotas and SCRAM credentials of a user cannot be altered by one command")
    if is_scram:
        alter_credentials(client, entities[0].name or "", added, deleted)
        return
    old = _quotas(client, entities)
    unknown = [key for key in deleted if not any(key in values for _, values in old)]
    if unknown:
        raise CommandError(f"Invalid config(s): {','.join(unknown)}")
    entry = RequestEntryData(
        entity=[
            RequestEntityData(entity_type=ENTITY_TYPES[entity.type], entity_name=entity.name or None)
            for entity in entities
        ],
        ops=[OpData(key=key, value=_number(key, value)) for key, value in added.items()]
        + [OpData(key=key, remove=True) for key in deleted],
    )
    response = client.ask_retrying(
        AlterClientQuotasRequest(entries=[entry]),
        broker=client.controller(),
        codes=lambda response: [row.error_code for row in response.entries],
    )
    for row in response.entries:
        check(row.error_code, row.error_message)


def _check_keys(entities: list[Entity], keys: Any, what: str) -> None:
    """Refuse keys that are no quotas of the entities."""
    types = {entity.type for entity in entities}
    if types == {IPS}:
        unknown = [key for key in keys if key not in IP_QUOTAS]
        allowed, whom = "connection quota configs", IPS
    elif types == {USERS}:
        unknown = [key for key in keys if key not in QUOTAS and key not in MECHANISMS]
        allowed, whom = "quota and SCRAM credential configs", USERS
        if entities[0].name == DEFAULT_NAME and any(key in MECHANISMS for key in keys):
            raise CommandError("SCRAM credentials belong to one user: --entity-default and --user-defaults do not go")
    else:
        unknown = [key for key in keys if key not in QUOTAS]
        allowed, whom = "quota configs", CLIENTS
    if unknown:
        raise CommandError(f"Only {allowed} can be {what} for '{whom}'. Unexpected config names: {','.join(unknown)}")


def _quotas(client: Client, entities: list[Entity]) -> list[tuple[dict[str, str | None], dict[str, float]]]:
    """Return names by type and values by key, for each that has quotas; sorted."""
    components = []
    for entity in entities:
        match = ANY if entity.name is None else DEFAULT if entity.name == DEFAULT_NAME else EXACT
        components.append(
            ComponentData(entity_type=ENTITY_TYPES[entity.type], match_type=match, match=entity.name or None)
        )
    response = client.ask_retrying(DescribeClientQuotasRequest(components=components, strict=True))
    check(response.error_code, response.error_message)
    found = []
    for entry in response.entries or ():
        names = {row.entity_type: row.entity_name for row in entry.entity}
        found.append((names, dict(sorted((row.key, row.value) for row in entry.values))))
    return sorted(found, key=lambda row: [(type_, name or "") for type_, name in sorted(row[0].items())])


def _number(key: str, text: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise CommandError(f"Cannot parse quota configuration value for {key}: {text}") from error


def java_double(value: float) -> str:
    """Write a number as Java does, which is what Kafka's tool prints: 1024.0, 1.048576E7, 1.0E-4."""
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(float(value))
    digits = re.sub(r"[-.]|e.*", "", repr(float(value))).strip("0")
    exponent = int(f"{value:.17e}".partition("e")[2])
    return f"{'-' if value < 0 else ''}{digits[0]}.{digits[1:] or '0'}E{exponent}"
