"""Stored messages in the JSON that Kafka's tools print."""

from __future__ import annotations

import pytest

from broker.offline.dump.messages import camel_case, java_double, json_text, to_json
from protocol.stored.cluster import ClientQuotaRecord, EntityData
from protocol.stored.group import OffsetCommitValue
from protocol.stored.raft import KRaftVersionRecord
from protocol.stored.transaction import TransactionLogValue


def test_names_are_the_schemas() -> None:
    assert camel_case("transaction_last_update_timestamp_ms") == "transactionLastUpdateTimestampMs"
    assert to_json(KRaftVersionRecord(k_raft_version=1), 0) == {"version": 0, "kRaftVersion": 1}


def test_fields_of_other_versions_and_tagged_defaults_are_left_out() -> None:
    value = OffsetCommitValue(offset=7, metadata="m", commit_timestamp=5)
    assert list(to_json(value, 3)) == ["offset", "leaderEpoch", "metadata", "commitTimestamp"]
    assert "topicId" not in to_json(value, 4)
    assert to_json(OffsetCommitValue(topic_id=bytes(15) + b"\1"), 4)["topicId"] == "AAAAAAAAAAAAAAAAAAAAAQ"


def test_null_is_null() -> None:
    assert to_json(TransactionLogValue(transaction_partitions=None), 0)["transactionPartitions"] is None


def test_text_is_escaped_as_jackson_does() -> None:
    assert json_text({"a": ['"\\/', "\n\x1f\x7f", "\u00fc\U0001f600", None, True, 1]}) == (
        '{"a":["\\"\\\\/","\\n\\u001F\x7f","\u00fc\U0001f600",null,true,1]}'
    )
    assert json_text("\\u001f stays") == '"\\\\u001f stays"'


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.0"), (1.0, "1.0"), (0.001, "0.001"), (9999999.0, "9999999.0"), (10485760.0, "1.048576E7"),
        (1e7, "1.0E7"), (-2.5e10, "-2.5E10"), (1e22, "1.0E22"), (1.5e-7, "1.5E-7"), (0.00025, "2.5E-4"),
        (float("inf"), '"Infinity"'),
    ],
)  # fmt: skip
def test_numbers_are_written_as_java_writes_them(value: float, text: str) -> None:
    assert java_double(value) == text


def test_a_quota_shows_its_number() -> None:
    quota = ClientQuotaRecord(entity=[EntityData(entity_type="user", entity_name=None)], key="k", value=2e9)
    assert '"value":2.0E9' in json_text(to_json(quota, 0))
