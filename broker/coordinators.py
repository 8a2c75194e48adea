"""The coordinators of groups and of transactions: made of the broker's parts, started, told and stopped together."""

from __future__ import annotations

from functools import partial

from broker.api.errors import known_code
from broker.coordinator.group.coordinator import GroupCoordinator, random_member_uuid
from broker.coordinator.internal_topics import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC, InternalTopics
from broker.coordinator.producer_ids import ProducerIds
from broker.coordinator.transaction.coordinator import TransactionCoordinator
from broker.coordinator.transaction.markers import MarkerSender
from broker.metadata.controller.features import transaction_version
from broker.metadata.controller.run import Controller
from broker.metadata.image import ClusterImage, Delta, full_delta
from broker.metadata.live_config import LiveConfig, LiveView
from broker.partition.internal_log import InternalLog
from broker.partition.manager import PartitionManager
from broker.partition.markers import MarkerWriter
from broker.partition.verification import TransactionVerifier
from broker.runtime.pools import Pools
from broker.runtime.scheduler import Scheduler
from broker.runtime.tasks import TaskOwner
from config.build import consumer_group_config, group_config, transaction_config, verification_config
from config.resolve import Resolver
from storage.env.clock import Clock, Rng

ASIDE_POOL = "coordinators"
"""The pool that matches clients' regular expressions with topics and transactional ids, and assigns large groups."""


class Coordinators:
    """Every coordinator of this broker."""

    def __init__(
        self,
        node_id: int,
        controller: Controller,
        partitions: PartitionManager,
        tasks: TaskOwner,
        scheduler: Scheduler,
        clock: Clock,
        rng: Rng,
        resolver: Resolver,
        live: LiveConfig,
        pools: Pools,
    ) -> None:
        run_aside = partial(pools.io, ASIDE_POOL)

        def image() -> ClusterImage:
            return controller.image

        self._controller = controller
        self.markers = MarkerWriter(partitions)
        internal_topics = InternalTopics(
            lambda name: name in controller.image.topics_by_name, lambda name: controller.auto_create([name])
        )
        self.producer_ids = ProducerIds(controller.allocate_producer_ids)
        self.transactions = TransactionCoordinator(
            node_id,
            InternalLog(TRANSACTION_STATE_TOPIC, partitions, pools.io),
            tasks,
            scheduler,
            transaction_config(resolver),
            internal_topics,
            self.producer_ids,
            MarkerSender(
                self.markers.write_marker, lambda tp: controller.image.partition(tp) is not None, known_code, scheduler
            ),
            now_ms=clock.now_ms,
            server_version=lambda: transaction_version(controller.image),
            error_code=known_code,
            run_aside=run_aside,
        )
        self.verifier = TransactionVerifier(
            partitions,
            self.transactions.verify,
            self.transactions.is_ending,
            LiveView(live, image, verification_config),
            scheduler.now_ms,
        )
        self.groups = GroupCoordinator(
            node_id,
            InternalLog(GROUP_METADATA_TOPIC, partitions, pools.io),
            tasks,
            scheduler,
            group_config(resolver),
            internal_topics,
            self.verifier,
            now_ms=clock.now_ms,
            new_uuid=partial(random_member_uuid, rng),
            error_code=known_code,
            image=image,
            consumer_config=LiveView(live, image, consumer_group_config),
            run_aside=run_aside,
        )
        self.markers.leave_to(GROUP_METADATA_TOPIC, self.groups.end_transaction)

    @property
    def image(self) -> ClusterImage:
        """The cluster as the coordinators see it."""
        return self._controller.image

    def start(self) -> None:
        """Serve what is led here."""
        self.publish(full_delta(self._controller.image), self._controller.image)

    def publish(self, delta: Delta, image: ClusterImage) -> None:
        """Follow the cluster. Groups come first, since they take the markers of transactions that end after a load."""
        self.groups.publish(delta, image)
        self.transactions.publish(delta, image)

    def close(self) -> None:
        """Send everyone who is parked away."""
        self.transactions.close()
        self.groups.close()
