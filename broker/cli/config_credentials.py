"""SCRAM credentials of a user: what `odradek configs` does with them. The broker never sees a password (RFC 5802)."""

from __future__ import annotations

import os
import re
from hashlib import pbkdf2_hmac

from broker.cli.errors import CommandError
from broker.client.client import Client
from broker.client.errors import check
from protocol.errors import ErrorCode
from protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName

MECHANISMS = {"SCRAM-SHA-256": 1, "SCRAM-SHA-512": 2}
HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
MIN_ITERATIONS = 4096
SALT_BYTES = 32
CREDENTIAL = re.compile(r"(?:iterations=(-?[0-9]*),)?password=(.*)")


def credentials_of(client: Client, user: str | None) -> list[tuple[str, dict[str, int]]]:
    """Return the iterations by mechanism of a user's credentials, or of all users that have some; sorted."""
    users = None if user is None else [UserName(name=user)]
    response = client.ask_retrying(DescribeUserScramCredentialsRequest(users=users))
    check(response.error_code, response.error_message)
    names = {number: name for name, number in MECHANISMS.items()}
    found = []
    for row in response.results:
        if row.error_code != ErrorCode.RESOURCE_NOT_FOUND:
            check(row.error_code, row.error_message)
            infos = {names.get(info.mechanism, str(info.mechanism)): info.iterations for info in row.credential_infos}
            found.append((row.user, infos))
    return sorted(found)


def alter_credentials(client: Client, user: str, added: dict[str, str], deleted: list[str]) -> None:
    """Set and delete credentials of a user. Blocking: hashes passwords."""
    request = AlterUserScramCredentialsRequest(
        deletions=[ScramCredentialDeletion(name=user, mechanism=MECHANISMS[name]) for name in deleted],
        upsertions=[_upsertion(user, name, text) for name, text in added.items()],
    )
    response = client.ask_retrying(
        request, broker=client.controller(), codes=lambda response: [row.error_code for row in response.results]
    )
    for row in response.results:
        check(row.error_code, row.error_message)


def _upsertion(user: str, mechanism: str, text: str) -> ScramCredentialUpsertion:
    found = CREDENTIAL.fullmatch(text)
    if found is None:
        raise CommandError(f"Invalid credential property {mechanism}: expected [iterations=4096,password=…]")
    iterations = MIN_ITERATIONS if found[1] in (None, "", "-1") else int(found[1])
    if iterations < MIN_ITERATIONS:
        raise CommandError(
            f"Iterations {iterations} is less than the minimum {MIN_ITERATIONS} required for {mechanism}"
        )
    salt = os.urandom(SALT_BYTES)
    salted = pbkdf2_hmac(HASHES[mechanism], found[2].encode(), salt, iterations)
    return ScramCredentialUpsertion(
        name=user, mechanism=MECHANISMS[mechanism], iterations=iterations, salt=salt, salted_password=salted
    )
