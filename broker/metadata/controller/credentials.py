"""SCRAM credentials: altered as a plan on an image, and described without their secrets; pure.

A user stands once in a request, whatever the mechanism: who names one twice gets an error and keeps what there was.
The client sends the salted password; what is stored proves a password but cannot be used to log in elsewhere.

Source: ScramControlManager, ScramImage, ScramFormatter; RFC 5802.
"""

from __future__ import annotations

import hashlib
import hmac
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from broker.metadata.access import Credential, CredentialKey, credential_record
from broker.metadata.controller.features import METADATA_VERSION
from broker.metadata.controller.plan import MAX_RECORDS_PER_COMMAND, Plan
from broker.metadata.errors import (
    DuplicateResource,
    MetadataError,
    PolicyViolation,
    ResourceNotFound,
    UnacceptableCredential,
    UnsupportedMechanism,
    UnsupportedVersion,
)
from broker.metadata.image import ClusterImage
from protocol.stored.cluster import RemoveUserScramCredentialRecord, UserScramCredentialRecord

HASHES = {1: "sha256", 2: "sha512"}
"""Mechanism, numbered as on the wire, to the hash it is made of."""

MIN_ITERATIONS, MAX_ITERATIONS = 4_096, 16_384

FIRST_LEVEL_WITH_SCRAM = 11
"""The `metadata.version` from which readers know these records."""


class Upsertion(NamedTuple):
    """A credential to be set."""

    user: str
    mechanism: int
    iterations: int
    salt: bytes
    salted_password: bytes

    def __repr__(self) -> str:
        return f"Upsertion({self.user!r}, {self.mechanism}, {self.iterations}, [hidden])"


class AlterResult(NamedTuple):
    """One user: altered, or why not."""

    user: str
    error: MetadataError | None = None


class DescribeResult(NamedTuple):
    """One user's mechanisms with their iterations, or why there are none."""

    user: str
    credentials: Sequence[tuple[int, int]] = ()
    error: MetadataError | None = None


def plan_alter_credentials(
    image: ClusterImage, deletions: Sequence[CredentialKey], upsertions: Sequence[Upsertion]
) -> Plan[list[AlterResult]]:
    """Plan an alteration. One result a user, in the order first named."""
    changes: list[tuple[str, Callable[[], object]]] = [
        *((user, partial(_deletion, image, user, mechanism)) for user, mechanism in deletions),
        *((one.user, partial(_upsertion, one)) for one in upsertions),
    ]
    records: dict[str, object] = {}
    errors: dict[str, MetadataError | None] = {}
    for user, record_of in changes:
        if errors.get(user) is not None:
            continue
        errors[user] = None
        try:
            if records.pop(user, None) is not None:
                raise DuplicateResource("A user credential cannot be altered twice in the same request")
            if image.features.get(METADATA_VERSION, 0) < FIRST_LEVEL_WITH_SCRAM:
                raise UnsupportedVersion("The current metadata.version does not support SCRAM")
            records[user] = record_of()
        except MetadataError as refusal:
            errors[user] = refusal
    if len(records) > MAX_RECORDS_PER_COMMAND:
        raise PolicyViolation("Unable to perform excessively large batch operation.")
    return Plan(list(records.values()), [AlterResult(user, error) for user, error in errors.items()])


def describe_credentials(image: ClusterImage, users: Sequence[str] | None) -> list[DescribeResult]:
    """Describe some users in the order first named, or all by name."""
    credentials = image.access.credentials
    of_user: dict[str, list[tuple[int, int]]] = {}
    for (user, mechanism), credential in sorted(credentials.items(), key=lambda entry: entry[0]):
        of_user.setdefault(user, []).append((mechanism, credential.iterations))
    if not users:
        return [DescribeResult(user, found) for user, found in of_user.items()]
    results = []
    for user, count in Counter(users).items():
        error: MetadataError | None = None
        if count > 1:
            error = DuplicateResource(
                f"Cannot describe SCRAM credentials for the same user twice in a single request: {user}"
            )
        elif user not in of_user:
            error = ResourceNotFound(f"Attempt to describe a user credential that does not exist: {user}")
        results.append(DescribeResult(user, () if error else of_user[user], error))
    return results


def _deletion(image: ClusterImage, user: str, mechanism: int) -> RemoveUserScramCredentialRecord:
    _check_key(user, mechanism)
    if (user, mechanism) not in image.access.credentials:
        raise ResourceNotFound("Attempt to delete a user credential that does not exist")
    return RemoveUserScramCredentialRecord(name=user, mechanism=mechanism)


def _upsertion(one: Upsertion) -> UserScramCredentialRecord:
    _check_key(one.user, one.mechanism)
    if one.iterations < MIN_ITERATIONS:
        raise UnacceptableCredential("Too few iterations")
    if one.iterations > MAX_ITERATIONS:
        raise UnacceptableCredential("Too many iterations")
    name = HASHES[one.mechanism]
    client_key = hmac.digest(one.salted_password, b"Client Key", name)
    credential = Credential(
        salt=one.salt,
        stored_key=hashlib.new(name, client_key).digest(),
        server_key=hmac.digest(one.salted_password, b"Server Key", name),
        iterations=one.iterations,
    )
    return credential_record((one.user, one.mechanism), credential)


def _check_key(user: str, mechanism: int) -> None:
    if not user:
        raise UnacceptableCredential("Username must not be empty")
    if mechanism not in HASHES:
        raise UnsupportedMechanism("Unknown SCRAM mechanism")
