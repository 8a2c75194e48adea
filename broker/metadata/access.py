"""Who is let in, who may do what, and how fast: credentials, ACLs and client quotas of the image, and their records.

Source: ScramImage, AclsImage, ClientQuotasImage.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from protocol.stored.cluster import (
    AccessControlEntryRecord,
    ClientQuotaRecord,
    EntityData,
    RemoveAccessControlEntryRecord,
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)

QuotaEntity = tuple[tuple[str, str | None], ...]
"""Type and name of each part, by type; no name stands for all of a type that have no quota of their own."""

CredentialKey = tuple[str, int]
"""User and mechanism."""


class Credential(NamedTuple):
    """What a user's password is checked against. Nothing but the iterations may be shown to anybody."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    def __repr__(self) -> str:
        return f"Credential([hidden], iterations={self.iterations})"


class Acl(NamedTuple):
    """One rule; numbers are those of the protocol."""

    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission_type: int


class AccessImage(NamedTuple):
    """All of them, as of one offset of the metadata log."""

    quotas: Mapping[QuotaEntity, Mapping[str, float]] = {}
    credentials: Mapping[CredentialKey, Credential] = {}
    acls: Mapping[bytes, Acl] = {}


def quota_entity(parts: Mapping[str, str | None]) -> QuotaEntity:
    """Return the entity of these types and names."""
    return tuple(sorted(parts.items(), key=lambda part: part[0]))


class AccessDraft:
    """The next AccessImage in the making; copies what records touch."""

    def __init__(self, base: AccessImage) -> None:
        self._base = base
        self._quotas: dict[QuotaEntity, dict[str, float]] = {}
        self._credentials: dict[CredentialKey, Credential] | None = None
        self._acls: dict[bytes, Acl] | None = None

    def replay(self, record: object) -> bool:
        """Apply a record; False when it is of another kind."""
        match record:
            case ClientQuotaRecord():
                self._quota(record)
            case UserScramCredentialRecord():
                self._editable_credentials()[record.name, record.mechanism] = Credential(
                    record.salt, record.stored_key, record.server_key, record.iterations
                )
            case RemoveUserScramCredentialRecord():
                self._editable_credentials().pop((record.name, record.mechanism), None)
            case AccessControlEntryRecord():
                self._editable_acls()[record.id] = Acl(
                    record.resource_type,
                    record.resource_name,
                    record.pattern_type,
                    record.principal,
                    record.host,
                    record.operation,
                    record.permission_type,
                )
            case RemoveAccessControlEntryRecord():
                self._editable_acls().pop(record.id, None)
            case _:
                return False
        return True

    def finish(self) -> AccessImage:
        """Return what there is now; parts that no record touched stay the same objects."""
        base = self._base
        if not self._quotas and self._credentials is None and self._acls is None:
            return base
        return AccessImage(
            self._finish_quotas() if self._quotas else base.quotas,
            base.credentials if self._credentials is None else self._credentials,
            base.acls if self._acls is None else self._acls,
        )

    def _quota(self, record: ClientQuotaRecord) -> None:
        entity = quota_entity({part.entity_type: part.entity_name for part in record.entity})
        values = self._quotas.get(entity)
        if values is None:
            values = self._quotas[entity] = dict(self._base.quotas.get(entity, {}))
        if record.remove:
            values.pop(record.key, None)
        else:
            values[record.key] = record.value

    def _finish_quotas(self) -> Mapping[QuotaEntity, Mapping[str, float]]:
        quotas = {**self._base.quotas, **self._quotas}
        return {entity: values for entity, values in quotas.items() if values}

    def _editable_credentials(self) -> dict[CredentialKey, Credential]:
        if self._credentials is None:
            self._credentials = dict(self._base.credentials)
        return self._credentials

    def _editable_acls(self) -> dict[bytes, Acl]:
        if self._acls is None:
            self._acls = dict(self._base.acls)
        return self._acls


def quota_record(entity: QuotaEntity, key: str, value: float | None) -> ClientQuotaRecord:
    """Return the record that sets a quota, or that removes it when there is no value."""
    return ClientQuotaRecord(
        entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
        key=key,
        value=0.0 if value is None else value,
        remove=value is None,
    )


def credential_record(key: CredentialKey, credential: Credential) -> UserScramCredentialRecord:
    """Return the record that states a credential."""
    name, mechanism = key
    return UserScramCredentialRecord(
        name=name,
        mechanism=mechanism,
        salt=credential.salt,
        stored_key=credential.stored_key,
        server_key=credential.server_key,
        iterations=credential.iterations,
    )


def acl_record(acl_id: bytes, acl: Acl) -> AccessControlEntryRecord:
    """Return the record that states a rule."""
    return AccessControlEntryRecord(
        id=acl_id,
        resource_type=acl.resource_type,
        resource_name=acl.resource_name,
        pattern_type=acl.pattern_type,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission_type,
    )


def access_records(access: AccessImage) -> Iterator[object]:
    """Yield the records that rebuild an image."""
    for entity, values in access.quotas.items():
        for key, value in sorted(values.items()):
            yield quota_record(entity, key, value)
    for credential_key, credential in access.credentials.items():
        yield credential_record(credential_key, credential)
    for acl_id, acl in access.acls.items():
        yield acl_record(acl_id, acl)
