"""AlterUserScramCredentials (key 51), version 0, flexible throughout."""

from typing import ClassVar

from protocol.api_keys import ApiKey
from protocol.message import field, message
from protocol.primitives import BYTES, INT8, INT16, INT32, STRING, array


@message
class ScramCredentialDeletion:
    """Struct of AlterUserScramCredentialsRequest.deletions."""

    name: str = field(STRING)
    mechanism: int = field(INT8)


@message
class ScramCredentialUpsertion:
    """Struct of AlterUserScramCredentialsRequest.upsertions."""

    name: str = field(STRING)
    mechanism: int = field(INT8)
    iterations: int = field(INT32)
    salt: bytes = field(BYTES)
    salted_password: bytes = field(BYTES)


@message
class AlterUserScramCredentialsRequest:
    """Request of AlterUserScramCredentials."""

    API_KEY: ClassVar[ApiKey] = ApiKey.ALTER_USER_SCRAM_CREDENTIALS
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_SINCE: ClassVar[int] = 0

    deletions: list[ScramCredentialDeletion] = field(array(ScramCredentialDeletion))
    upsertions: list[ScramCredentialUpsertion] = field(array(ScramCredentialUpsertion))


@message
class AlterUserScramCredentialsResult:
    """Struct of AlterUserScramCredentialsResponse.results."""

    user: str = field(STRING)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable=True)


@message
class AlterUserScramCredentialsResponse:
    """Response of AlterUserScramCredentials."""

    API_KEY: ClassVar[ApiKey] = ApiKey.ALTER_USER_SCRAM_CREDENTIALS
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_SINCE: ClassVar[int] = 0

    throttle_time_ms: int = field(INT32)
    results: list[AlterUserScramCredentialsResult] = field(array(AlterUserScramCredentialsResult))
