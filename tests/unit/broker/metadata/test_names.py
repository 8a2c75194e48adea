import pytest

from broker.metadata.errors import InvalidTopic
from broker.metadata.names import check_topic_name, collision_key, has_collision_chars


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
    assert collision_key("a.b_c") == collision_key("a_b.c")
    assert collision_key("ab") != collision_key("a.b")
    assert has_collision_chars("a.b")
    assert not has_collision_chars("a-b")
