"""Range and uniform assignors: every partition once, to a subscriber, evenly, and moved no more than needed."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.coordinator.group.consumer.assign_range import assign_range
from broker.coordinator.group.consumer.assign_uniform import assign_uniform
from broker.coordinator.group.consumer.assignor import AssigneeSpec, Assignor
from broker.coordinator.group.consumer.member import Target

A, B, C = (bytes([0] * 15 + [number]) for number in (1, 2, 3))
TOPICS = [bytes([0] * 15 + [number]) for number in range(1, 6)]


def spec(name: str, *topics: bytes, previous: Target | None = None, instance: str | None = None) -> AssigneeSpec:
    return AssigneeSpec(name, instance, frozenset(topics), previous or {})


def owners(targets: dict[str, Target]) -> Counter[tuple[bytes, int]]:
    return Counter((t, p) for target in targets.values() for t, ps in target.items() for p in ps)


def loads(members: list[AssigneeSpec], targets: dict[str, Target]) -> dict[str, int]:
    return {m.member_id: sum(len(ps) for ps in targets.get(m.member_id, {}).values()) for m in members}


@st.composite
def groups(draw: st.DrawFn, *, alike: bool) -> tuple[list[AssigneeSpec], dict[bytes, int]]:
    """Draw members with previous targets that do not overlap but may speak of anything else."""
    counts = {topic: draw(st.integers(1, 9)) for topic in TOPICS[: draw(st.integers(1, 5))]}
    names = [f"m{number}" for number in range(draw(st.integers(1, 8)))]
    held_by = {
        (topic, number): draw(st.sampled_from([None, *names, "gone"]))
        for topic in TOPICS
        for number in range(counts.get(topic, 2) + 1)
    }
    subscriptions = st.frozensets(st.sampled_from(sorted(counts)), min_size=0 if not alike else 1)
    shared = draw(subscriptions)
    members = []
    for name in names:
        previous: dict[bytes, set[int]] = {}
        for (topic, number), holder in held_by.items():
            if holder == name:
                previous.setdefault(topic, set()).add(number)
        topics = shared if alike else draw(subscriptions)
        members.append(AssigneeSpec(name, None, topics, {t: frozenset(ps) for t, ps in previous.items()}))
    return members, counts


def check_complete(members: list[AssigneeSpec], counts: dict[bytes, int], targets: dict[str, Target]) -> None:
    subscribed = {topic for member in members for topic in member.topic_ids}
    assert owners(targets) == Counter((topic, number) for topic in subscribed for number in range(counts[topic]))
    for member in members:
        assert targets.get(member.member_id, {}).keys() <= member.topic_ids


def again(members: list[AssigneeSpec], targets: dict[str, Target]) -> list[AssigneeSpec]:
    return [member._replace(previous=targets.get(member.member_id, {})) for member in members]


@given(groups(alike=True))
@settings(max_examples=100, deadline=None)
def test_uniform_shares_differ_by_one_and_nothing_moves_that_need_not(
    drawn: tuple[list[AssigneeSpec], dict[bytes, int]],
) -> None:
    members, counts = drawn
    targets = assign_uniform(members, counts)
    check_complete(members, counts, targets)
    shares = loads(members, targets)
    assert max(shares.values()) - min(shares.values()) <= 1
    # What can be kept at best: nobody more than the larger share, and only so many of those.
    topics = members[0].topic_ids
    total = sum(counts[topic] for topic in topics)
    quota, larger = divmod(total, len(members))
    had = [sum(p < counts[t] for t, ps in member.previous.items() if t in topics for p in ps) for member in members]
    best = sum(min(count, quota) for count in had) + min(larger, sum(count > quota for count in had))
    kept = sum(
        len(ps & member.previous.get(t, frozenset()))
        for member in members
        for t, ps in targets.get(member.member_id, {}).items()
    )
    assert kept == best
    assert assign_uniform(again(members, targets), counts) == targets, "settled"


@given(groups(alike=False))
@settings(max_examples=100, deadline=None)
def test_uniform_with_different_subscriptions_leaves_no_move_that_would_balance(
    drawn: tuple[list[AssigneeSpec], dict[bytes, int]],
) -> None:
    members, counts = drawn
    targets = assign_uniform(members, counts)
    check_complete(members, counts, targets)
    shares = loads(members, targets)
    for giver in members:
        for topic in targets.get(giver.member_id, {}):
            for taker in members:
                if topic in taker.topic_ids:
                    assert shares[giver.member_id] - shares[taker.member_id] <= 1
    assert assign_uniform(again(members, targets), counts) == targets, "settled"


@given(groups(alike=False))
@settings(max_examples=100, deadline=None)
def test_ranges_are_even_and_do_not_depend_on_the_past(drawn: tuple[list[AssigneeSpec], dict[bytes, int]]) -> None:
    members, counts = drawn
    targets = assign_range(members, counts)
    check_complete(members, counts, targets)
    for topic in counts:
        shares = [len(targets.get(m.member_id, {}).get(topic, ())) for m in members if topic in m.topic_ids]
        assert not shares or max(shares) - min(shares) <= 1
        for target in targets.values():
            numbers = sorted(target.get(topic, ()))
            assert numbers == list(range(numbers[0], numbers[0] + len(numbers))) if numbers else True
    assert assign_range([m._replace(previous={}) for m in reversed(members)], counts) == targets


def test_ranges_of_equal_topics_go_to_the_same_member_and_static_members_come_first() -> None:
    members = [spec("a", A, B), spec("z", A, B, instance="1"), spec("y", A, B, instance="0")]
    assert assign_range(members, {A: 4, B: 4}) == {
        "y": {A: frozenset({0, 1}), B: frozenset({0, 1})},
        "z": {A: frozenset({2}), B: frozenset({2})},
        "a": {A: frozenset({3}), B: frozenset({3})},
    }


def test_who_has_more_keeps_the_larger_share() -> None:
    members = [
        spec("a", A, previous={A: frozenset({0, 1})}),
        spec("b", A, previous={A: frozenset({2, 3, 4})}),
    ]
    assert assign_uniform(members, {A: 5}) == {"a": {A: frozenset({0, 1})}, "b": {A: frozenset({2, 3, 4})}}


@pytest.mark.parametrize("assign", [assign_range, assign_uniform])
def test_nobody_and_nothing(assign: Assignor) -> None:
    assert assign([], {}) == {}
    assert assign([spec("a")], {}) == {}
    assert assign([spec("a", C), spec("b", C)], {C: 1}) in ({"a": {C: frozenset({0})}}, {"b": {C: frozenset({0})}})
