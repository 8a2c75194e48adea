"""Broker registration: the records that make this broker a live member of its one-node cluster.

A broker registers fenced and is unfenced by a change record, as in Kafka; its broker epoch is the offset of the
registration record. Other brokers that a taken-over log still shows alive are fenced: nobody heartbeats for them here.

Source: ClusterControlManager.registerBroker, BrokerHeartbeatManager.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from broker.metadata.controller.features import SUPPORTED_FEATURES
from broker.metadata.image import BrokerImage, ClusterImage, EndpointImage
from config.views import BrokerConfig, ListenerConfig
from protocol.stored.cluster import (
    BrokerEndpoint,
    BrokerFeature,
    BrokerRegistrationChangeRecord,
    RegisterBrokerRecord,
)

FENCE, UNFENCE = 1, -1

SECURITY_PROTOCOLS = {"PLAINTEXT": 0, "SSL": 1, "SASL_PLAINTEXT": 2, "SASL_SSL": 3}


class Registration(NamedTuple):
    """What a broker says about itself when it starts."""

    broker_id: int
    incarnation_id: bytes
    endpoints: tuple[EndpointImage, ...]
    rack: str | None
    log_dirs: tuple[bytes, ...]


def registration_of(
    config: BrokerConfig, listeners: Iterable[ListenerConfig], directory_ids: Iterable[bytes], *, incarnation_id: bytes
) -> Registration:
    """Say about this broker what its configuration, bound listeners and online directories say."""
    return Registration(
        broker_id=config.node_id,
        incarnation_id=incarnation_id,
        endpoints=tuple(
            EndpointImage(one.name, one.advertised_host, one.advertised_port, SECURITY_PROTOCOLS[one.protocol])
            for one in listeners
        ),
        rack=config.rack,
        log_dirs=tuple(directory_ids),
    )


def register(registration: Registration, offset: int) -> BrokerImage:
    """Return a broker as its registration at `offset` states it: fenced, with the offset as its epoch."""
    return BrokerImage(
        broker_id=registration.broker_id,
        epoch=offset,
        incarnation_id=registration.incarnation_id,
        endpoints=registration.endpoints,
        features=SUPPORTED_FEATURES,
        rack=registration.rack,
        fenced=True,
        in_controlled_shutdown=False,
        log_dirs=registration.log_dirs,
    )


def broker_record(broker: BrokerImage) -> RegisterBrokerRecord:
    """Return the record that states a broker whole."""
    return RegisterBrokerRecord(
        broker_id=broker.broker_id,
        incarnation_id=broker.incarnation_id,
        broker_epoch=broker.epoch,
        end_points=[
            BrokerEndpoint(name=e.name, host=e.host, port=e.port, security_protocol=e.security_protocol)
            for e in broker.endpoints
        ],
        features=[
            BrokerFeature(name=f.name, min_supported_version=f.min_level, max_supported_version=f.max_level)
            for f in broker.features
        ],
        rack=broker.rack,
        fenced=broker.fenced,
        in_controlled_shutdown=broker.in_controlled_shutdown,
        log_dirs=list(broker.log_dirs),
        cordoned_log_dirs=None if broker.cordoned_log_dirs is None else list(broker.cordoned_log_dirs),
    )


def plan_liveness(image: ClusterImage, broker_id: int) -> Sequence[BrokerRegistrationChangeRecord]:
    """Return the changes after which `broker_id` is the only unfenced broker."""
    return [
        BrokerRegistrationChangeRecord(
            broker_id=broker.broker_id,
            broker_epoch=broker.epoch,
            fenced=UNFENCE if broker.broker_id == broker_id else FENCE,
        )
        for broker in image.brokers.values()
        if broker.fenced == (broker.broker_id == broker_id)
    ]
