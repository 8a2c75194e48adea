"""The chapter about metrics that clients push."""

from __future__ import annotations

from typing import Any

from tests.conformance.admin.step import Step

ZERO_ID, RESERVED_ID, CLIENT = bytes(16), bytes(15) + b"\x01", b"c" * 16


def telemetry() -> list[Step]:
    """Push metrics as nobody may."""

    def push(client: bytes = CLIENT, subscription: int = 0, **more: Any) -> dict[str, Any]:
        return {
            "client_instance_id": client,
            "subscription_id": subscription,
            "terminating": False,
            "compression_type": 0,
            "metrics": b"",
        } | more

    return [
        Step("push as nobody", "push_telemetry", 0, push(ZERO_ID)),
        Step("push as a reserved id", "push_telemetry", 0, push(RESERVED_ID)),
        Step("push unasked", "push_telemetry", 0, push()),
        Step("subscribe as a reserved id", "get_telemetry_subscriptions", 0, {"client_instance_id": RESERVED_ID}),
        Step("subscribe", "get_telemetry_subscriptions", 0, {"client_instance_id": CLIENT + b""}),
        Step("subscribe again", "get_telemetry_subscriptions", 0, {"client_instance_id": CLIENT}),
        Step("push by another subscription", "push_telemetry", 0, push(b"d" * 16, 12345)),
        Step("push by another codec", "push_telemetry", 0, push(b"e" * 16, compression_type=9)),
        Step("last push", "push_telemetry", 0, push(b"f" * 16, 12345, terminating=True)),
        Step("subscribe as a new client", "get_telemetry_subscriptions", 0, {"client_instance_id": ZERO_ID}),
    ]
