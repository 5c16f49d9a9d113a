"""Znodes as Kafka writes them, byte for byte."""

import pytest

from controller_core import znodes
from controller_core.model.partitions import (
    Broker,
    Endpoint,
    LeaderAndIsr,
    LeaderRecoveryState,
    ReplicaAssignment,
    TopicPartition,
)
from controller_core.znodes import ScalaVersion

MOVING = ReplicaAssignment((3, 2, 1), (3,), (1,))
PLAINTEXT = Endpoint("h1", 9092, "PLAINTEXT", "PLAINTEXT")
TIMESTAMP = "1700000000000"
BROKER = znodes.BrokerZnode(
    broker=Broker(1, 77, (PLAINTEXT,), "r1"), version=5, host="h1", port=9092, timestamp=TIMESTAMP
)
CASES = [
    pytest.param(
        "/controller",
        znodes.ControllerZnode(broker_id=1, timestamp=TIMESTAMP, version=1, kraft_controller_epoch=None),
        b'{"version":1,"brokerid":1,"timestamp":"1700000000000"}',
        znodes.encode_controller,
        id="controller up to 3.3",
    ),
    pytest.param(
        "/controller",
        znodes.ControllerZnode(broker_id=1, timestamp=TIMESTAMP),
        b'{"version":2,"brokerid":1,"timestamp":"1700000000000","kraftControllerEpoch":-1}',
        znodes.encode_controller,
        id="controller since 3.4",
    ),
    pytest.param("/controller_epoch", 5, b"5", znodes.encode_controller_epoch, id="controller epoch"),
    pytest.param(
        "/brokers/ids/1",
        BROKER,
        b'{"features":{},"listener_security_protocol_map":{"PLAINTEXT":"PLAINTEXT"},"endpoints":["PLAINTEXT://h1:9092"],'
        b'"rack":"r1","jmx_port":-1,"port":9092,"host":"h1","version":5,"timestamp":"1700000000000"}',
        znodes.encode_broker,
        id="broker, version 5",
    ),
    pytest.param(
        "/brokers/ids/1",
        znodes.BrokerZnode(
            broker=Broker(1, 77, (Endpoint("::1", 9, "CLIENT", "SSL"), Endpoint("h", 8, "INSIDE", "PLAINTEXT"))),
            version=4,
            host=None,
            port=-1,
            timestamp=TIMESTAMP,
        ),
        b'{"listener_security_protocol_map":{"CLIENT":"SSL","INSIDE":"PLAINTEXT"},"endpoints":["CLIENT://[::1]:9",'
        b'"INSIDE://h:8"],"jmx_port":-1,"host":null,"timestamp":"1700000000000","port":-1,"version":4}',
        lambda znode: znodes.encode_broker(znode, scala=ScalaVersion.V2_11),
        id="broker, version 4 of Scala 2.11, without PLAINTEXT",
    ),
    pytest.param(
        "/brokers/ids/1",
        znodes.BrokerZnode(
            broker=Broker(1, 77, (PLAINTEXT,), "dc1"), version=3, host="h1", port=9092, timestamp=TIMESTAMP
        ),
        b'{"version":3,"host":"h1","port":9092,"jmx_port":-1,"timestamp":"1700000000000",'
        b'"endpoints":["PLAINTEXT://h1:9092"],"rack":"dc1"}',
        znodes.encode_broker,
        id="broker, version 3",
    ),
    pytest.param(
        "/brokers/ids/1",
        znodes.BrokerZnode(broker=Broker(1, 77, (PLAINTEXT,)), version=1, host="h1", port=9092, timestamp=TIMESTAMP),
        b'{"version":1,"host":"h1","port":9092,"jmx_port":-1,"timestamp":"1700000000000"}',
        znodes.encode_broker,
        id="broker, version 1",
    ),
    pytest.param(
        "/brokers/topics/t",
        znodes.TopicZnode({0: ReplicaAssignment((0, 1, 2)), 1: ReplicaAssignment((1, 2, 0))}, version=1),
        b'{"version":1,"partitions":{"0":[0,1,2],"1":[1,2,0]}}',
        znodes.encode_topic,
        id="topic up to 2.3",
    ),
    pytest.param(
        "/brokers/topics/t",
        znodes.TopicZnode({0: ReplicaAssignment((1, 2))}, version=2),
        b'{"partitions":{"0":[1,2]},"adding_replicas":{},"removing_replicas":{},"version":2}',
        znodes.encode_topic,
        id="topic since 2.4",
    ),
    pytest.param(
        "/brokers/topics/t",
        znodes.TopicZnode({0: ReplicaAssignment((1, 2))}, version=2),
        b'{"removing_replicas":{},"partitions":{"0":[1,2]},"adding_replicas":{},"version":2}',
        lambda topic: znodes.encode_topic(topic, scala=ScalaVersion.V2_11),
        id="topic since 2.4, Scala 2.11",
    ),
    pytest.param(
        "/brokers/topics/t",
        znodes.TopicZnode(
            {0: MOVING, 1: ReplicaAssignment((1,))}, "3tRvjlrmRXmsYOMp9Fg0AA", extra=(("new", '{"a":1.50}'),)
        ),
        b'{"partitions":{"0":[3,2,1],"1":[1]},"topic_id":"3tRvjlrmRXmsYOMp9Fg0AA","adding_replicas":{"0":[3]},'
        b'"removing_replicas":{"0":[1]},"version":3,"new":{"a":1.50}}',
        znodes.encode_topic,
        id="topic since 2.8, moving, with a field nobody knows",
    ),
    pytest.param(
        "/brokers/topics/t/partitions/0/state",
        LeaderAndIsr(1, 0, (1, 2), partition_epoch=7, controller_epoch=50),
        b'{"controller_epoch":50,"leader":1,"version":1,"leader_epoch":0,"isr":[1,2]}',
        znodes.encode_state,
        id="state",
    ),
    pytest.param(
        "/brokers/topics/t/partitions/0/state",
        LeaderAndIsr(1, 0, (1, 2), LeaderRecoveryState.RECOVERING, 7, 50, (("later", '"x"'),)),
        b'{"controller_epoch":50,"leader":1,"version":1,"leader_recovery_state":1,"leader_epoch":0,"isr":[1,2],'
        b'"later":"x"}',
        znodes.encode_state,
        id="state of a recovering leader, with a field nobody knows",
    ),
    pytest.param(
        "/admin/reassign_partitions",
        {TopicPartition("test", 0): (3, 4, 5)},
        b'{"version":1,"partitions":[{"topic":"test","partition":0,"replicas":[3,4,5]}]}',
        znodes.encode_reassign_partitions,
        id="reassignment",
    ),
    pytest.param(
        "/admin/preferred_replica_election",
        (TopicPartition("test", 0), TopicPartition("test", 1)),
        b'{"version":1,"partitions":[{"topic":"test","partition":0},{"topic":"test","partition":1}]}',
        znodes.encode_preferred_replica_election,
        id="preferred election",
    ),
    pytest.param(
        "/isr_change_notification/isr_change_0000000042",
        (TopicPartition("a-b", 0),),
        b'{"version":1,"partitions":[{"topic":"a-b","partition":0}]}',
        znodes.encode_isr_change_notification,
        id="ISR change",
    ),
    pytest.param(
        "/log_dir_event_notification/log_dir_event_0000000000",
        znodes.LogDirEvent(1),
        b'{"version":1,"broker":1,"event":1}',
        znodes.encode_log_dir_event,
        id="log dir event",
    ),
    pytest.param("/admin/delete_topics/t", "t", b"", lambda _: znodes.encode_delete_topic(), id="delete request"),
    pytest.param("/brokers/seqid", 7, b"", lambda _: b"", id="generated broker ids"),
    pytest.param(
        "/config/topics/t",
        znodes.ConfigZnode({"retention.ms": "1000"}),
        b'{"version":1,"config":{"retention.ms":"1000"}}',
        znodes.encode_config,
        id="config",
    ),
    pytest.param(
        "/config/users/alice/clients/c",
        znodes.ConfigZnode({"k": 'a"\\\n\x1f\u00e9\U0001f600'}, (("x", "[1,null,true,false]"),)),
        b'{"version":1,"config":{"k":"a\\"\\\\\\n\\u001F\xc3\xa9\\uD83D\\uDE00"},"x":[1,null,true,false]}',
        znodes.encode_config,
        id="config with characters to escape, as Jackson does",
    ),
    pytest.param(
        "/config/changes/config_change_0000000003",
        znodes.ConfigChange("topics/test"),
        b'{"version":2,"entity_path":"topics/test"}',
        znodes.encode_config_change,
        id="config change",
    ),
    pytest.param(
        "/config/changes/config_change_0000000003",
        znodes.ConfigChange("topics/test", 1),
        b'{"version":1,"entity_type":"topics","entity_name":"test"}',
        znodes.encode_config_change,
        id="config change of an old broker",
    ),
    pytest.param(
        "/cluster/id",
        "vPeOCWypqUOSepEvx0cbog",
        b'{"version":"1","id":"vPeOCWypqUOSepEvx0cbog"}',
        znodes.encode_cluster_id,
        id="cluster id",
    ),
    pytest.param(
        "/latest_producer_id_block",
        znodes.ProducerIdBlock(1, 0, 999),
        b'{"version":1,"broker":1,"block_start":"0","block_end":"999"}',
        znodes.encode_producer_id_block,
        id="producer ids",
    ),
    pytest.param(
        "/kafka-acl/Topic/t",
        (znodes.AclEntry("User:alice", "Allow", "Read", "*"),),
        b'{"version":1,"acls":[{"principal":"User:alice","permissionType":"Allow","operation":"Read","host":"*"}]}',
        znodes.encode_acl,
        id="ACL",
    ),
    pytest.param(
        "/kafka-acl-changes/acl_changes_0000000001",
        znodes.AclChange("Topic", "a:b"),
        b"Topic:a:b",
        znodes.encode_acl_change,
        id="ACL change",
    ),
    pytest.param(
        "/kafka-acl-extended-changes/acl_changes_0000000001",
        znodes.AclChange("TOPIC", "foo", "PREFIXED"),
        b'{"version":1,"resourceType":"TOPIC","name":"foo","patternType":"PREFIXED"}',
        znodes.encode_extended_acl_change,
        id="extended ACL change",
    ),
    pytest.param(
        "/feature",
        znodes.FeatureZnode((("f", (1, 3)),), 1, 1),
        b'{"features":{"f":{"min_version_level":1,"max_version_level":3}},"version":1,"status":1}',
        znodes.encode_feature,
        id="features before 3.3",
    ),
    pytest.param(
        "/feature",
        znodes.FeatureZnode((("f", (None, 3)),), 0),
        b'{"features":{"f":{"max_version_level":3}},"version":2,"status":0}',
        znodes.encode_feature,
        id="features since 3.3",
    ),
    pytest.param(
        "/migration",
        znodes.MigrationZnode(
            kraft_metadata_offset=10, kraft_controller_id=3000, kraft_metadata_epoch=1, kraft_controller_epoch=1
        ),
        b'{"version":0,"kraft_metadata_offset":10,"kraft_controller_id":3000,"kraft_metadata_epoch":1,'
        b'"kraft_controller_epoch":1}',
        znodes.encode_migration,
        id="migration to KRaft",
    ),
    pytest.param("/consumers/g/offsets/t/0", 42, b"42", lambda offset: b"%d" % offset, id="old consumer's offset"),
    pytest.param("/consumers/g/owners/t/0", "g_1-0", b"g_1-0", str.encode, id="old consumer's ownership"),
    pytest.param(
        "/delegation_token/token_changes/token_change_0000000000", "abc", b"abc", str.encode, id="token change"
    ),
]
