"""Which partition a group belongs to, and creation on demand."""

import asyncio

import pytest

from broker.coordinator import internal_topics
from broker.coordinator.internal_topics import InternalTopics, java_string_hash, partition_for


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 0),
        ("g", 103),
        ("test", 3556498),
        ("my-group", -1906497762),
        ("polygenelubricants", -(2**31)),
        ("\u00fcn\u00ef", 245821),
        ("\U0001f600x", 54959989),
    ],
)
def test_the_hash_is_that_of_java_strings(text: str, expected: int) -> None:
    assert java_string_hash(text) == expected


def test_the_partition_comes_from_the_hash_without_its_sign_bit() -> None:
    assert partition_for("polygenelubricants", 50) == 0
    assert partition_for("test", 50) == 3556498 % 50
    assert all(0 <= partition_for(f"group-{n}", 50) < 50 for n in range(500))


async def test_concurrent_needs_create_a_topic_once_and_a_failure_can_be_retried() -> None:
    created: list[str] = []
    failures = [RuntimeError("no directory")]

    async def create(topic: str) -> None:
        await asyncio.sleep(0)
        if failures:
            raise failures.pop()
        created.append(topic)

    topics = InternalTopics(lambda topic: topic in created, create)
    assert await topics.ensure("x") is False
    assert await asyncio.gather(*(topics.ensure("x") for _ in range(5))) == [True] * 5
    assert created == ["x"]
    assert await topics.ensure("x") is True


def test_the_partition_of_a_long_key_is_not_remembered() -> None:
    internal_topics._remembered.cache_clear()
    key = "remembered".ljust(internal_topics.LONGEST_REMEMBERED_KEY, "x")
    assert partition_for(key, 50) == abs(java_string_hash(key)) % 50
    assert partition_for(key + "x", 50) == abs(java_string_hash(key + "x")) % 50
    assert internal_topics._remembered.cache_info().currsize == 1
