"""Credentials, ACLs and client quotas over a real controller: what clients read of them."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from broker.api.acls import AclsApi
from broker.api.credentials import CredentialsApi
from broker.api.quotas import QuotasApi
from broker.metadata.controller.run import Controller
from protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    OpData,
    RequestEntityData,
    RequestEntryData,
)
from protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from protocol.messages.create_acls import AclCreation, CreateAclsRequest
from protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from protocol.messages.describe_acls import DescribeAclsRequest
from protocol.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest
from protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName
from tests.unit.broker.conftest import Ask, Node


@pytest.fixture
async def controller(node: Node) -> AsyncIterator[Controller]:
    controller = await node.start()
    yield controller
    await controller.close()


# --- credentials


def upsertion(name: str, iterations: int = 4096) -> ScramCredentialUpsertion:
    return ScramCredentialUpsertion(name=name, mechanism=1, iterations=iterations, salt=b"s", salted_password=b"p")


async def test_credentials_are_altered_by_user_and_described_without_secrets(ask: Ask, controller: Controller) -> None:
    api = CredentialsApi(controller, lambda: controller.image)
    request = AlterUserScramCredentialsRequest(
        deletions=[ScramCredentialDeletion(name="x", mechanism=1)], upsertions=[upsertion("u"), upsertion("v", 1)]
    )
    altered = await ask(api, request, 0)
    assert [(one.user, one.error_code) for one in altered.results] == [("x", 91), ("u", 0), ("v", 93)]
    assert all(one.error_message for one in altered.results if one.error_code)
    for users in (None, []):
        described = await ask(api, DescribeUserScramCredentialsRequest(users=users), 0)
        [result] = described.results
        assert (described.error_code, result.user, result.error_code) == (0, "u", 0)
        assert [(one.mechanism, one.iterations) for one in result.credential_infos] == [(1, 4096)]
    asked = DescribeUserScramCredentialsRequest(users=[UserName(name="v")])
    assert [one.error_code for one in (await ask(api, asked, 0)).results] == [91]


async def test_a_controller_that_is_gone_fails_every_user(ask: Ask, controller: Controller) -> None:
    api = CredentialsApi(controller, lambda: controller.image)
    await controller.close()
    altered = await ask(api, AlterUserScramCredentialsRequest(deletions=[], upsertions=[upsertion("u")]), 0)
    assert [(one.user, one.error_code) for one in altered.results] == [("u", 41)]


# --- ACLs


def creation(name: str) -> AclCreation:
    return AclCreation(
        resource_type=2, resource_name=name, principal="User:a", host="*", operation=3, permission_type=3
    )


EVERY = {"resource_type_filter": 1, "pattern_type_filter": 1, "operation": 1, "permission_type": 1}
NAMES = dict.fromkeys(("resource_name_filter", "principal_filter", "host_filter"))


@pytest.mark.parametrize("version", [1, 2, 3])
async def test_without_an_authorizer_there_are_no_rules(ask: Ask, controller: Controller, version: int) -> None:
    api = AclsApi(controller, lambda: controller.image, lambda: b"i" * 16, has_authorizer=False)
    described = await ask(api, DescribeAclsRequest(**EVERY, **NAMES), version)
    assert (described.error_code, described.error_message) == (54, "No Authorizer is configured on the broker")
    created = await ask(api, CreateAclsRequest(creations=[creation("t"), creation("")]), version)
    assert [(one.error_code, one.error_message) for one in created.results] == [
        (54, "No Authorizer is configured.")
    ] * 2
    deleted = await ask(api, DeleteAclsRequest(filters=[DeleteAclsFilter(**EVERY, **NAMES)]), version)
    assert [(one.error_code, one.matching_acls) for one in deleted.filter_results] == [(54, [])]


@pytest.mark.parametrize("version", [1, 2, 3])
async def test_rules_are_kept_listed_by_resource_and_deleted(ask: Ask, controller: Controller, version: int) -> None:
    ids = iter(range(1, 99))
    api = AclsApi(controller, lambda: controller.image, lambda: next(ids).to_bytes(16, "big"), has_authorizer=True)
    rules = [creation("t"), creation(""), creation("t"), creation("u")]
    rules[2].operation = 4
    created = await ask(api, CreateAclsRequest(creations=rules), version)
    assert [one.error_code for one in created.results] == [0, 42, 0, 0]
    described = await ask(api, DescribeAclsRequest(**EVERY, **NAMES), version)
    assert described.error_code == 0
    assert [(one.resource_name, one.pattern_type, len(one.acls)) for one in described.resources] == [
        ("t", 3, 2),
        ("u", 3, 1),
    ]
    filters = [
        DeleteAclsFilter(**EVERY, **(NAMES | {"resource_name_filter": "t"})),
        DeleteAclsFilter(**(EVERY | {"operation": 0}), **NAMES),
    ]
    deleted = await ask(api, DeleteAclsRequest(filters=filters), version)
    assert [(one.error_code, len(one.matching_acls)) for one in deleted.filter_results] == [(0, 2), (42, 0)]
    assert [acl.resource_name for acl in controller.image.access.acls.values()] == ["u"]


# --- quotas


def entry(key: str, value: float, *, remove: bool = False, **entity: str | None) -> RequestEntryData:
    return RequestEntryData(
        entity=[RequestEntityData(entity_type=kind, entity_name=name) for kind, name in entity.items()],
        ops=[OpData(key=key, value=value, remove=remove)],
    )


@pytest.mark.parametrize("version", [0, 1])
async def test_quotas_are_set_described_and_removed(ask: Ask, controller: Controller, version: int) -> None:
    api = QuotasApi(controller, lambda: controller.image)
    entries = [
        entry("producer_byte_rate", 10.0, user="u"),
        entry("producer_byte_rate", -1.0, user="v"),
        entry("connection_creation_rate", 5.0, ip="127.0.0.1"),
        entry("connection_creation_rate", 5.0, ip="no host at all"),
    ]
    altered = await ask(api, AlterClientQuotasRequest(entries=entries), version)
    assert [one.error_code for one in altered.entries] == [0, 42, 0, 42]
    assert altered.entries[3].error_message == "no host at all is not a valid IP or resolvable host."
    described = await ask(api, DescribeClientQuotasRequest(components=[]), version)
    assert [
        ([(part.entity_type, part.entity_name) for part in one.entity], [(v.key, v.value) for v in one.values])
        for one in described.entries
    ] == [
        ([("user", "u")], [("producer_byte_rate", 10.0)]),
        ([("ip", "127.0.0.1")], [("connection_creation_rate", 5.0)]),
    ]
    await ask(api, AlterClientQuotasRequest(entries=[entry("producer_byte_rate", 0, remove=True, user="u")]), version)
    assert list(controller.image.access.quotas) == [(("ip", "127.0.0.1"),)]


async def test_a_validation_changes_nothing(ask: Ask, controller: Controller) -> None:
    api = QuotasApi(controller, lambda: controller.image)
    request = AlterClientQuotasRequest(entries=[entry("producer_byte_rate", 10.0, user="u")], validate_only=True)
    assert [one.error_code for one in (await ask(api, request, 1)).entries] == [0]
    assert not controller.image.access.quotas


async def test_a_filter_that_makes_no_sense_is_told(ask: Ask, controller: Controller) -> None:
    api = QuotasApi(controller, lambda: controller.image)
    components = [ComponentData(entity_type="color", match_type=0, match="red")]
    described = await ask(api, DescribeClientQuotasRequest(components=components), 1)
    assert (described.error_code, described.error_message, described.entries) == (
        35,
        "Unsupported entity type color",
        None,
    )
