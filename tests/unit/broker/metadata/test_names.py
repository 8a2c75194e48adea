import pytest

from broker.metadata.errors import InvalidTopic
from broker.metadata.names import check_topic_name, colliding_topic


@pytest.mark.parametrize("name", ["a", "A-b_c.d", "..a", "x" * 249, "__consumer_offsets"])
def test_legal_names_pass(name: str) -> None:
    check_topic_name(name)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("", "empty"),
        (".", "directory"),
        ("..", "directory"),
        ("x" * 250, "longer"),
        ("a b", "ASCII"),
        ("naïve", "ASCII"),
    ],
)
def test_illegal_names_say_why(name: str, reason: str) -> None:
    with pytest.raises(InvalidTopic, match=reason):
        check_topic_name(name)


def test_names_collide_when_only_dot_and_underscore_differ() -> None:
    assert colliding_topic("a.b", ["x", "a_b"]) == "a_b"
    assert colliding_topic("a_b", ["a_b", "ab"]) is None
    assert colliding_topic("ab", ["a.b"]) is None
