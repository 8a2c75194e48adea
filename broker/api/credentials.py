"""DescribeUserScramCredentials (key 50) and AlterUserScramCredentials (51). Served: 0.

- Nobody is ever told a salt or a key, only which mechanisms a user has and with how many iterations.

Source: KIP-554; ScramControlManager, ScramImage.
"""

from __future__ import annotations

from collections.abc import Callable

from broker.api.errors import code_of
from broker.api.route import RequestContext, Route
from broker.metadata.controller.credentials import (
    AlterResult,
    DescribeResult,
    Upsertion,
    describe_credentials,
    plan_alter_credentials,
)
from broker.metadata.controller.run import Controller
from broker.metadata.errors import MetadataError
from broker.metadata.image import ClusterImage
from protocol.api_keys import ApiKey
from protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)
from protocol.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)


class CredentialsApi:
    """Keeps what passwords of users are checked against."""

    def __init__(self, controller: Controller, image: Callable[[], ClusterImage]) -> None:
        self._controller = controller
        self._image = image

    def routes(self) -> tuple[Route, ...]:
        """Name what this family serves."""
        return (
            Route(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, 0, self.describe_user_scram_credentials),
            Route(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, 0, self.alter_user_scram_credentials),
        )

    async def describe_user_scram_credentials(
        self, request: DescribeUserScramCredentialsRequest, context: RequestContext
    ) -> DescribeUserScramCredentialsResponse:
        """Tell which mechanisms users have."""
        users = None if request.users is None else [user.name for user in request.users]
        return DescribeUserScramCredentialsResponse(
            error_message=None,
            results=[_described(result, context) for result in describe_credentials(self._image(), users)],
        )

    async def alter_user_scram_credentials(
        self, request: AlterUserScramCredentialsRequest, context: RequestContext
    ) -> AlterUserScramCredentialsResponse:
        """Set and delete credentials."""
        deletions = [(one.name, one.mechanism) for one in request.deletions]
        upsertions = [
            Upsertion(one.name, one.mechanism, one.iterations, bytes(one.salt), bytes(one.salted_password))
            for one in request.upsertions
        ]
        try:
            results = await self._controller.execute(lambda image: plan_alter_credentials(image, deletions, upsertions))
        except MetadataError as refusal:
            users = dict.fromkeys([user for user, _ in deletions] + [one.user for one in upsertions])
            results = [AlterResult(user, refusal) for user in users]
        return AlterUserScramCredentialsResponse(results=[_altered(result, context) for result in results])


def _described(result: DescribeResult, context: RequestContext) -> DescribeUserScramCredentialsResult:
    told = DescribeUserScramCredentialsResult(
        user=result.user,
        error_message=None,
        credential_infos=[
            CredentialInfo(mechanism=mechanism, iterations=iterations) for mechanism, iterations in result.credentials
        ],
    )
    if result.error is not None:
        told.error_code, told.error_message = code_of(result.error, context), str(result.error)
    return told


def _altered(result: AlterResult, context: RequestContext) -> AlterUserScramCredentialsResult:
    told = AlterUserScramCredentialsResult(user=result.user, error_message=None)
    if result.error is not None:
        told.error_code, told.error_message = code_of(result.error, context), str(result.error)
    return told
