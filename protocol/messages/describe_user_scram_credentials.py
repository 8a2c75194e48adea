"""DescribeUserScramCredentials (key 50), version 0, flexible throughout."""

from typing import ClassVar

from protocol.api_keys import ApiKey
from protocol.message import field, message
from protocol.primitives import INT8, INT16, INT32, STRING, array


@message
class UserName:
    """Struct of DescribeUserScramCredentialsRequest.users."""

    name: str = field(STRING)


@message
class DescribeUserScramCredentialsRequest:
    """Request of DescribeUserScramCredentials."""

    API_KEY: ClassVar[ApiKey] = ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_SINCE: ClassVar[int] = 0

    users: list[UserName] | None = field(array(UserName), nullable=True)


@message
class CredentialInfo:
    """Struct of DescribeUserScramCredentialsResult.credential_infos."""

    mechanism: int = field(INT8)
    iterations: int = field(INT32)


@message
class DescribeUserScramCredentialsResult:
    """Struct of DescribeUserScramCredentialsResponse.results."""

    user: str = field(STRING)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable=True)
    credential_infos: list[CredentialInfo] = field(array(CredentialInfo))


@message
class DescribeUserScramCredentialsResponse:
    """Response of DescribeUserScramCredentials."""

    API_KEY: ClassVar[ApiKey] = ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_SINCE: ClassVar[int] = 0

    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable=True)
    results: list[DescribeUserScramCredentialsResult] = field(array(DescribeUserScramCredentialsResult))
