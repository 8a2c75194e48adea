"""SCRAM credentials: what is refused, what is stored, and that nothing secret is shown."""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import replace

import pytest

from broker.metadata.access import AccessImage, Credential
from broker.metadata.controller.credentials import Upsertion, describe_credentials, plan_alter_credentials
from broker.metadata.errors import (
    DuplicateResource,
    ResourceNotFound,
    UnacceptableCredential,
    UnsupportedMechanism,
    UnsupportedVersion,
)
from broker.metadata.image import ClusterImage
from protocol.stored.cluster import RemoveUserScramCredentialRecord, UserScramCredentialRecord
from tests.unit.broker.conftest import Node

SALTED = hashlib.pbkdf2_hmac("sha256", b"secret", b"salt", 4096)
KNOWN = Credential(b"s", b"k", b"v", 5000)
EMPTY = ClusterImage("c", features={"metadata.version": 29})
IMAGE = replace(EMPTY, access=AccessImage(credentials={("u", 1): KNOWN, ("u", 2): KNOWN, ("a", 2): KNOWN}))


def upsertion(user: str = "u", mechanism: int = 1, iterations: int = 4096) -> Upsertion:
    return Upsertion(user, mechanism, iterations, b"salt", SALTED)


@pytest.mark.parametrize(
    ("deletions", "upsertions", "error"),
    [
        ([], [upsertion("")], UnacceptableCredential),
        ([], [upsertion(mechanism=0)], UnsupportedMechanism),
        ([], [upsertion(mechanism=3)], UnsupportedMechanism),
        ([], [upsertion(iterations=4095)], UnacceptableCredential),
        ([], [upsertion(iterations=16385)], UnacceptableCredential),
        ([], [upsertion(), upsertion()], DuplicateResource),
        ([], [upsertion(), upsertion(mechanism=2)], DuplicateResource),
        ([("u", 1)], [upsertion()], DuplicateResource),
        ([("u", 1), ("u", 2)], [], DuplicateResource),
        ([("a", 1)], [], ResourceNotFound),
        ([("", 1)], [], UnacceptableCredential),
        ([("u", 9)], [], UnsupportedMechanism),
        ([("a", 1)], [upsertion("a")], ResourceNotFound),  # the first refusal stays
    ],
)
def test_refusals(deletions: list[tuple[str, int]], upsertions: list[Upsertion], error: type) -> None:
    plan = plan_alter_credentials(IMAGE, deletions, upsertions)
    assert (plan.records, [type(one.error) for one in plan.result]) == ([], [error])


def test_users_stand_alone() -> None:
    plan = plan_alter_credentials(IMAGE, [("u", 1)], [upsertion("new"), upsertion("bad", iterations=1)])
    assert [(one.user, one.error is None) for one in plan.result] == [("u", True), ("new", True), ("bad", False)]
    assert [type(one) for one in plan.records] == [RemoveUserScramCredentialRecord, UserScramCredentialRecord]


@pytest.mark.parametrize(("mechanism", "name"), [(1, "sha256"), (2, "sha512")])
def test_what_is_stored_proves_a_password_without_being_one(mechanism: int, name: str) -> None:
    [record] = plan_alter_credentials(EMPTY, [], [upsertion(mechanism=mechanism)]).records
    assert isinstance(record, UserScramCredentialRecord)
    client_key = hmac.digest(SALTED, b"Client Key", name)
    assert record.stored_key == hashlib.new(name, client_key).digest()
    assert record.server_key == hmac.digest(SALTED, b"Server Key", name)
    assert (record.salt, record.iterations) == (b"salt", 4096)
    assert SALTED not in (record.stored_key, record.server_key)


def test_an_older_log_cannot_hold_them() -> None:
    old = replace(EMPTY, features={"metadata.version": 10})
    assert isinstance(plan_alter_credentials(old, [], [upsertion()]).result[0].error, UnsupportedVersion)
    assert plan_alter_credentials(replace(EMPTY, features={"metadata.version": 11}), [], [upsertion()]).records


def test_descriptions_name_mechanisms_and_iterations() -> None:
    told = {one.user: list(one.credentials) for one in describe_credentials(IMAGE, None)}
    assert told == {"a": [(2, 5000)], "u": [(1, 5000), (2, 5000)]}
    assert describe_credentials(IMAGE, []) == describe_credentials(IMAGE, None)
    results = describe_credentials(IMAGE, ["u", "x", "a", "a"])
    assert [(one.user, type(one.error)) for one in results] == [
        ("u", type(None)),
        ("x", ResourceNotFound),
        ("a", DuplicateResource),
    ]


def test_secrets_stay_out_of_what_is_logged() -> None:
    assert "k" not in repr(Credential(b"kkkk", b"kkkk", b"kkkk", 1)).replace("Credential", "")
    assert "salt" not in repr(upsertion()) and "hidden" in repr(upsertion())


async def test_they_survive_a_start(node: Node) -> None:
    controller = await node.start()
    await controller.execute(lambda image: plan_alter_credentials(image, [], [upsertion(), upsertion("v", 2)]))
    before = controller.image.access
    await controller.close()
    controller = await node.start()
    assert set(before.credentials) == {("u", 1), ("v", 2)}
    assert controller.image.access == before
    await controller.execute(lambda image: plan_alter_credentials(image, [("u", 1)], []))
    assert set(controller.image.access.credentials) == {("v", 2)}
    await controller.close()
