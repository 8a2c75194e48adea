import pytest

from broker.api.route import RequestContext, Route
from broker.api.versions import VersionsApi
from broker.metadata.image import ClusterImage
from protocol.api_keys import ApiKey
from protocol.messages.api_versions import ApiVersionsRequest
from tests.unit.broker.conftest import Ask

IMAGE = ClusterImage("c", features={"metadata.version": 29}, kraft_version=1, features_epoch=4)


async def nothing(request: object, context: RequestContext) -> None:
    """Serve no purpose."""


def family(image: ClusterImage = IMAGE) -> VersionsApi:
    table: dict[ApiKey, Route] = {}
    api = VersionsApi(lambda: table, image_of(image))
    table[ApiKey.METADATA] = Route(ApiKey.METADATA, 0, 13, nothing)
    table[ApiKey.PRODUCE] = Route(ApiKey.PRODUCE, 0, 13, nothing, served_from=3)
    table[ApiKey.API_VERSIONS] = api.routes()[0]
    return api


def image_of(image: ClusterImage):
    return lambda: image


@pytest.mark.parametrize("version", range(5))
async def test_the_table_is_the_handler_table_in_ascending_order(ask: Ask, version: int) -> None:
    request = ApiVersionsRequest(client_software_name="probe", client_software_version="1.0")
    answer = await ask(family(), request, version)
    assert answer.error_code == 0
    assert [(k.api_key, k.min_version, k.max_version) for k in answer.api_keys] == [(0, 0, 13), (3, 0, 13), (18, 0, 4)]


@pytest.mark.parametrize(
    ("version", "supported"),
    [(3, ["metadata.version"]), (4, ["group.version", "kraft.version", "metadata.version", "transaction.version"])],
)
async def test_features_with_a_zero_minimum_are_for_v4_alone(ask: Ask, version: int, supported: list[str]) -> None:
    request = ApiVersionsRequest(client_software_name="x", client_software_version="1")
    answer = await ask(family(), request, version)
    assert [f.name for f in answer.supported_features] == supported
    assert answer.finalized_features_epoch == 4
    finalized = [(f.name, f.min_version_level, f.max_version_level) for f in answer.finalized_features]
    assert finalized == [("kraft.version", 1, 1), ("metadata.version", 29, 29)]


async def test_levels_this_broker_does_not_implement_are_not_told(ask: Ask) -> None:
    image = ClusterImage("c", features={"metadata.version": 29, "share.version": 1, "group.version": 1})
    request = ApiVersionsRequest(client_software_name="x", client_software_version="1")
    answer = await ask(family(image), request, 4)
    assert [f.name for f in answer.finalized_features] == ["group.version", "metadata.version"]


@pytest.mark.parametrize(
    ("name", "software_version", "code"),
    [
        ("probe-1.0", "2.3.0-rc1", 0),
        ("a", "b", 0),
        ("bad name!", "1", 42),
        ("", "1", 42),
        ("x", "", 42),
        ("-x", "1", 42),
        ("x-", "1", 42),
        ("x", "1.", 42),
        ("x\n", "1", 42),
    ],
)
@pytest.mark.parametrize("version", [3, 4])
async def test_the_software_is_named_properly_or_refused(
    ask: Ask, version: int, name: str, software_version: str, code: int
) -> None:
    request = ApiVersionsRequest(client_software_name=name, client_software_version=software_version)
    answer = await ask(family(), request, version)
    assert answer.error_code == code
    assert bool(answer.api_keys) == (code == 0)
