"""Notifications that leaders wrote beside a controller that hangs: drained after approval, right metadata, nothing lost."""

from datetime import UTC, datetime

import pytest

from controller_core.adapters.object_store.open import MemoryStore
from controller_core.adapters.zookeeper.address import ClusterAddress
from controller_core.znodes.paths import ISR_CHANGE_NOTIFICATION
from kafka_maintenance.demo.cluster import (
    BROKER_CONFIG,
    INTER_BROKER_PROTOCOL_VERSION,
    ZOOKEEPER_CONFIG,
    TroubledCluster,
)
from kafka_maintenance.operations.apply.plan import apply_plan, verify
from kafka_maintenance.operations.cluster import isr_notifications
from kafka_maintenance.operations.plans.drain import plan_drain
from kafka_maintenance.servers import KafkaCluster, ZooKeeperServer
from kafka_maintenance.servers.process import wait_until

pytestmark = pytest.mark.kafka


def notifications(kafka):
    with kafka.session() as zookeeper:
        return set(zookeeper.children(ISR_CHANGE_NOTIFICATION))


def test_lingering_notifications_of_real_leaders_are_drained():
    with (
        ZooKeeperServer(config=ZOOKEEPER_CONFIG) as server,
        KafkaCluster(
            "3.9", server, config=BROKER_CONFIG, inter_broker_protocol_version=INTER_BROKER_PROTOCOL_VERSION
        ) as kafka,
    ):
        troubled = TroubledCluster(kafka, print)
        try:
            troubled.make_topics()
            troubled.hang_the_controller()
            wedged = kafka.controller_id()
            lingering = notifications(kafka)
            report = isr_notifications.report(zookeeper=ClusterAddress(kafka.zookeeper_connect), age_min_s=0.0)
            assert (report.controller_id, report.lingering, report.never_written) == (wedged, True, False)
            assert set(report.partitions) & set(troubled.partitions)

            store = MemoryStore()
            plan = plan_drain(store, "demo", zookeeper=ClusterAddress(kafka.zookeeper_connect), age_min_s=0.0)
            assert plan is not None
            apply_plan(
                store=store, plan_uri=plan.uri, approved_digest=plan.digest, approver="ann",
                zookeeper=ClusterAddress(kafka.zookeeper_connect), now=datetime.now(UTC),
            )  # fmt: skip
            assert verify(store=store, plan_uri=plan.uri, zookeeper=ClusterAddress(kafka.zookeeper_connect)).done
            assert kafka.controller_id() not in {wedged, None}
            assert lingering
            assert not lingering & notifications(kafka)
            assert troubled.await_right_metadata() == 2
            # A leader may have written another one in between: the new controller takes it.
            wait_until(lambda: not notifications(kafka), what="the new controller takes what is written", timeout_s=60)
            troubled.wake_the_former_controller()
            assert troubled.await_right_metadata() == 3
            assert troubled.lost_messages() == {}
        finally:
            troubled.close()
