"""Chapters about who may do what: credentials and access rules."""

from __future__ import annotations

from typing import Any

from tests.conformance.admin.step import Step

SHA_256, SHA_512 = 1, 2


def _upsert(name: str, mechanism: int = SHA_256, iterations: int = 4096) -> dict[str, Any]:
    secrets = {"salt": b"salty", "salted_password": b"p" * 32}
    return {"name": name, "mechanism": mechanism, "iterations": iterations, **secrets}


def _delete(name: str, mechanism: int = SHA_256) -> dict[str, Any]:
    return {"name": name, "mechanism": mechanism}


def credentials() -> list[Step]:
    """Give users credentials, good and bad."""

    def alter(*upsertions: dict[str, Any], deletions: tuple[dict[str, Any], ...] = ()) -> dict[str, Any]:
        return {"deletions": list(deletions), "upsertions": list(upsertions)}

    def described(*users: str) -> dict[str, Any]:
        return {"users": [{"name": user} for user in users]}

    user, other = "{t}", "{t}-other"
    refused: dict[str, dict[str, Any]] = {
        "nothing": alter(),
        "no name": alter(_upsert("")),
        "mechanism 0": alter(_upsert(user, 0)),
        "mechanism 3": alter(_upsert(user, 3)),
        "mechanism -1": alter(_upsert(user, -1)),
        "too few iterations": alter(_upsert(user, iterations=4095)),
        "too few iterations for the longer one": alter(_upsert(user, SHA_512, 4095)),
        "too many iterations": alter(_upsert(user, iterations=16385)),
        "no iterations": alter(_upsert(user, iterations=0)),
        "iterations -1": alter(_upsert(user, iterations=-1)),
        "a mechanism twice": alter(_upsert(user), _upsert(user)),
        "upsert and delete": alter(_upsert(user), deletions=(_delete(user),)),
        "delete what is not": alter(deletions=(_delete(user),)),
        "delete nobody's": alter(deletions=(_delete(""),)),
        "delete by an unknown mechanism": alter(deletions=(_delete(user, 9),)),
        "delete twice": alter(deletions=(_delete(user), _delete(user))),
        "one good, one bad": alter(_upsert(user), _upsert(other, iterations=1)),
        "of one user one good, one bad": alter(_upsert(other), _upsert(other, SHA_512, 1)),
        "of one user one good, one bad deletion": alter(_upsert(other), deletions=(_delete(other, SHA_512),)),
    }
    return [
        Step("describe nobody known", "describe_user_scram_credentials", 0, described(user)),
        *(Step(name, "alter_user_scram_credentials", 0, values) for name, values in refused.items()),
        Step("clear", "alter_user_scram_credentials", 0, alter(deletions=(_delete(user),))),
        Step("two mechanisms at once", "alter_user_scram_credentials", 0, alter(_upsert(user), _upsert(user, SHA_512))),
        Step("insert", "alter_user_scram_credentials", 0, alter(_upsert(user))),
        Step("insert another", "alter_user_scram_credentials", 0, alter(_upsert(user, SHA_512, 16384))),
        Step("describe", "describe_user_scram_credentials", 0, described(user)),
        Step("describe twice", "describe_user_scram_credentials", 0, described(user, user)),
        Step("describe one known, one not", "describe_user_scram_credentials", 0, described(user, other)),
        Step("describe nobody", "describe_user_scram_credentials", 0, described("")),
        Step("update", "alter_user_scram_credentials", 0, alter(_upsert(user, iterations=8192))),
        Step("described again", "describe_user_scram_credentials", 0, described(user)),
        Step("delete one", "alter_user_scram_credentials", 0, alter(deletions=(_delete(user),))),
        Step("describe the rest", "describe_user_scram_credentials", 0, described(user)),
        Step("describe everybody", "describe_user_scram_credentials", 0, {"users": None}),
        Step("describe an empty list", "describe_user_scram_credentials", 0, {"users": []}),
        Step("delete the other", "alter_user_scram_credentials", 0, alter(deletions=(_delete(user, SHA_512),))),
        Step("describe what is gone", "describe_user_scram_credentials", 0, described(user)),
        Step("describe everybody again", "describe_user_scram_credentials", 0, {"users": None}),
    ]


def acls() -> list[Step]:
    """Ask for access rules where there is no authorizer."""

    def acl(**values: Any) -> dict[str, Any]:
        return {
            "resource_type": 2,
            "resource_name": "{t}",
            "resource_pattern_type": 3,
            "principal": "User:a",
            "host": "*",
            "operation": 3,
            "permission_type": 3,
        } | values

    def wanted(**values: Any) -> dict[str, Any]:
        return {
            "resource_type_filter": 1,
            "resource_name_filter": None,
            "pattern_type_filter": 1,
            "principal_filter": None,
            "host_filter": None,
            "operation": 1,
            "permission_type": 1,
        } | values

    return [
        *(
            step
            for version in (1, 2, 3)
            for step in (
                Step(f"describe, v{version}", "describe_acls", version, wanted()),
                Step(f"create, v{version}", "create_acls", version, {"creations": [acl()]}),
                Step(f"delete, v{version}", "delete_acls", version, {"filters": [wanted()]}),
            )
        ),
        Step("describe of one", "describe_acls", 3, wanted(resource_name_filter="{t}", resource_type_filter=2)),
        Step("create two", "create_acls", 3, {"creations": [acl(), acl(resource_name="")]}),
        Step("create none", "create_acls", 3, {"creations": []}),
        Step("delete two", "delete_acls", 3, {"filters": [wanted(), wanted(resource_type_filter=2)]}),
        Step("delete none", "delete_acls", 3, {"filters": []}),
    ]
