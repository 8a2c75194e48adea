"""The short vocabulary in which the rows of the table are written."""

from __future__ import annotations

from typing import Any

from config.key import ConfigKey, ConfigType, Importance, Synonym, Update, Validator
from config.validators import Matching

BOOLEAN = ConfigType.BOOLEAN
STRING = ConfigType.STRING
INT = ConfigType.INT
SHORT = ConfigType.SHORT
LONG = ConfigType.LONG
DOUBLE = ConfigType.DOUBLE
LIST = ConfigType.LIST
CLASS = ConfigType.CLASS
PASSWORD = ConfigType.PASSWORD

HIGH: Importance = "high"
MEDIUM: Importance = "medium"
LOW: Importance = "low"

READ_ONLY: Update = "read-only"
PER_BROKER: Update = "per-broker"
CLUSTER_WIDE: Update = "cluster-wide"

INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1
MINUTE_MS = 60_000
HOUR_MS = 3_600_000

PROTOCOL_MAP = Matching(
    r"(\s*[^:,\s]+\s*:\s*(?i:PLAINTEXT|SSL|SASL_PLAINTEXT|SASL_SSL)\s*(,|$))*",
    "NAME:PROTOCOL pairs with the protocols PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL",
)
PER_IP_LIMITS = Matching(r"(\s*[^,\s]+:[0-9]{1,9}\s*(,|$))*", "host:count pairs separated by commas")
HOST_AND_PORT = Matching(r"(\[[0-9a-fA-F:.%]+\]|[^:\s]*):[0-9]{1,5}", "host:port", whole="")
THROTTLED_REPLICAS = Matching(r"[0-9]+:[0-9]+", "[partitionId]:[brokerId],...", whole="*")
LOGGER_LEVEL = Matching(
    r"[^=,\s]+=(?i:TRACE|DEBUG|INFO|WARN|ERROR|FATAL|ALL|OFF)",
    "logger=level, where a logger is root or the name of a package or module",
)
OFFSET_RESET = Matching(
    r"(?i:latest|earliest|by_duration:P.*[0-9].*)",
    "latest, earliest or by_duration: and an ISO 8601 duration",
)


def broker(
    name: str,
    type: ConfigType,
    default: Any,
    validator: Validator | None,
    importance: Importance,
    doc: str,
    update: Update = READ_ONLY,
    internal: bool = False,
    synonyms: tuple[Synonym, ...] = (),
) -> ConfigKey:
    """Write a row of broker scope; its update mode says what may change it while the broker runs.

    Its synonyms are other spellings of the setting; on one layer its own name wins over them.
    """
    return ConfigKey(name, type, default, validator, importance, "broker", update, synonyms, internal, doc)


def topic(
    name: str,
    type: ConfigType,
    default: Any,
    validator: Validator | None,
    doc: str,
    synonyms: tuple[Synonym, ...] = (),
    internal: bool = False,
) -> ConfigKey:
    """Write a row of topic scope; any topic can override it at any time."""
    return ConfigKey(name, type, default, validator, MEDIUM, "topic", CLUSTER_WIDE, synonyms, internal, doc)


def group(
    name: str,
    type: ConfigType,
    default: Any,
    validator: Validator | None,
    doc: str,
    synonyms: tuple[Synonym, ...] = (),
) -> ConfigKey:
    """Write a row of group scope; any group can override it at any time."""
    return ConfigKey(name, type, default, validator, MEDIUM, "group", CLUSTER_WIDE, synonyms, False, doc)


def client_metrics(name: str, type: ConfigType, default: Any, validator: Validator | None, doc: str) -> ConfigKey:
    """Write a row of a client metrics subscription; it can be set at any time."""
    return ConfigKey(name, type, default, validator, MEDIUM, "client-metrics", CLUSTER_WIDE, (), False, doc)
