"""A second store: verified on the way, resumed after a kill, append-only; and a key that was changed."""

import base64
from dataclasses import replace
from datetime import UTC, datetime

import boto3
import pytest
from botocore.exceptions import ClientError

from controller_core.adapters.object_store.open import MemoryStore, open_store
from controller_core.adapters.snapshot.manifest import changed_manifest, manifest_bytes
from controller_core.adapters.snapshot.secrets import Sealer
from controller_core.model.errors import SnapshotKeyError, StoreAccessDeniedError
from kafka_maintenance.operations.errors import RefusedError
from kafka_maintenance.operations.snapshots.check import check_store
from kafka_maintenance.operations.snapshots.copy import copy_snapshots
from kafka_maintenance.operations.snapshots.pins import pin, pins
from kafka_maintenance.servers import ObjectStoreServer
from tests.kafka_maintenance import snapshot_world as world
from tests.visible_snapshots import visible_snapshots

NOW = datetime(2026, 6, 30, 12, tzinfo=UTC)


class AppendOnly(MemoryStore):
    """A bucket whose policy denies overwriting and deleting, as one with object lock does for a while."""

    def put(self, key, data):
        if key in self.list(key):
            raise StoreAccessDeniedError(f"{key} is locked")
        super().put(key, data)

    def delete(self, key):
        raise StoreAccessDeniedError(f"{key} is locked")


@pytest.fixture
def source(request):
    store = MemoryStore(f"{request.node.name}-source")
    for days_ago in range(3):
        world.stored_day(store, NOW, days_ago)
    world.stored_day(store, NOW, 1, cluster="beta")
    pin(store, visible_snapshots(store, "alpha")[0], reason="audit", by="ada", now=NOW)
    return store


@pytest.fixture
def target(request):
    return AppendOnly(f"{request.node.name}-target")


def test_every_snapshot_is_copied_once_with_its_pin_and_its_note(source, target):
    done = copy_snapshots(source, target)
    assert (len(done.copied), done.already_there, done.passed_over) == (4, 0, ())
    assert [each.digest for each in visible_snapshots(target)] == [each.digest for each in visible_snapshots(source)]
    assert pins(target, "alpha") == pins(source, "alpha")
    assert target.list("v1/runs/") == source.list("v1/runs/")
    assert copy_snapshots(source, target).already_there == 4


def test_one_cluster_alone(source, target):
    assert len(copy_snapshots(source, target, cluster="beta").copied) == 1
    assert [each.cluster for each in visible_snapshots(target)] == ["beta"]


def test_a_copy_that_was_killed_shows_nothing_half_and_goes_on(source, target, monkeypatch):
    real, left = AppendOnly.put_new, [7]

    def die(self, key, data):
        left[0] -= 1
        if left[0] == 0:
            raise KeyboardInterrupt
        real(self, key, data)

    monkeypatch.setattr(AppendOnly, "put_new", die)
    with pytest.raises(KeyboardInterrupt):
        copy_snapshots(source, target)
    monkeypatch.undo()
    visible = visible_snapshots(target)
    assert 0 < len(visible) < 4
    assert not [each for each in check_store(target, now=NOW).findings if "is missing" in each.what]
    assert len(copy_snapshots(source, target).copied) == 4 - len(visible)
    assert len(visible_snapshots(target)) == 4


def test_what_is_damaged_in_the_source_is_named_and_not_copied(source, target):
    damaged = visible_snapshots(source, "alpha")[1]
    source.put(damaged.object("raw").key, b"x")
    done = copy_snapshots(source, target)
    assert len(done.copied) == 3
    assert damaged.object("raw").key in done.passed_over[0]
    assert damaged.snapshot_id not in {each.snapshot_id for each in visible_snapshots(target)}


def test_what_arrives_otherwise_than_it_left_is_found(source, target, monkeypatch):
    real = AppendOnly.put_new
    monkeypatch.setattr(
        AppendOnly, "put_new", lambda self, key, data: real(self, key, data[:-1] if key.endswith(".parquet") else data)
    )
    assert len(copy_snapshots(source, target).passed_over) == 4
    assert visible_snapshots(target) == []


def test_another_snapshot_at_the_same_place_is_not_overwritten(source, target):
    (own,) = visible_snapshots(source, "beta")
    other = MemoryStore("other")
    world.stored_day(other, NOW, 1, cluster="beta", consistent=False)
    target.put(own.key, other.get(own.key))
    done = copy_snapshots(source, target)
    assert (len(done.copied), len(done.passed_over)) == (3, 1)
    assert own.uri in done.passed_over[0]
    assert "keep the one that is whole" in done.passed_over[0]
    assert target.get(own.key) == other.get(own.key)


def torn_there(source, target, manifest):
    MemoryStore.put(target, manifest.key, target.get(manifest.key)[:-20])


def other_there(source, target, manifest):
    MemoryStore.put(target, manifest.key, manifest_bytes(changed_manifest(manifest, reason="busy", consistent=False)))


def other_raw_there(source, target, manifest):
    other = replace(manifest.object("raw"), sha256="0" * 64)
    MemoryStore.put(target, manifest.key, manifest_bytes(changed_manifest(manifest, objects=(other,))))


def other_bytes_there(source, target, manifest):
    MemoryStore.delete(target, manifest.key)
    MemoryStore.put(target, manifest.object("raw").key, b"x")


@pytest.mark.parametrize(
    ("damage", "named"),
    [
        pytest.param(torn_there, "its manifest is damaged", id="its manifest is torn in the target"),
        pytest.param(other_there, "keep the one that is whole", id="the target says something else of it"),
        pytest.param(other_raw_there, "keep the one that is whole", id="the target has another raw layer"),
        pytest.param(other_bytes_there, "raw.parquet' is damaged", id="the target has other bytes at its key"),
    ],
)
def test_one_that_cannot_be_copied_is_named_and_keeps_no_other_from_being_copied(source, target, damage, named):
    copy_snapshots(source, target)
    damage(source, target, visible_snapshots(source, "alpha")[0])
    newer = world.stored_day(source, NOW, 0, hour=2)
    done = copy_snapshots(source, target)
    assert (done.copied, done.already_there) == ((newer.snapshot_id,), 3)
    (reason,) = done.passed_over
    assert named in reason


@pytest.mark.parametrize("mended", ["source", "target"])
def test_one_that_was_repaired_in_one_of_the_stores_is_there(source, target, mended):
    """Its tables were made again from the raw layer that both have."""
    copy_snapshots(source, target)
    manifest = visible_snapshots(source, "alpha")[0]
    anew = manifest_bytes(changed_manifest(manifest, counts={"znodes": 0}))
    MemoryStore.put({"source": source, "target": target}[mended], manifest.key, anew)
    before = target.get(manifest.key)
    done = copy_snapshots(source, target)
    assert (done.copied, done.already_there, done.passed_over) == ((), 4, ())
    assert target.get(manifest.key) == before


def test_an_object_that_the_target_lacks_is_copied_again(source, target):
    copy_snapshots(source, target)
    (own,) = visible_snapshots(target, "beta")
    MemoryStore.delete(target, own.object("raw").key)
    assert copy_snapshots(source, target).copied == (own.snapshot_id,)
    assert target.get(own.object("raw").key) == source.get(own.object("raw").key)
    assert copy_snapshots(source, target).already_there == 4


@pytest.mark.services
def test_a_bucket_with_object_lock(source):
    """Real S3 over HTTP: every version is locked for a day; what was written can be read and checked, and not be removed."""
    with ObjectStoreServer() as server:
        client = boto3.client(
            "s3",
            endpoint_url=server.endpoint_url,
            aws_access_key_id=server.access_key,
            aws_secret_access_key=server.secret_key,
            region_name="us-east-1",
        )
        client.create_bucket(Bucket="locked", ObjectLockEnabledForBucket=True)
        retention = {"DefaultRetention": {"Mode": "COMPLIANCE", "Days": 1}}
        client.put_object_lock_configuration(
            Bucket="locked", ObjectLockConfiguration={"ObjectLockEnabled": "Enabled", "Rule": retention}
        )
        target = open_store(
            "s3://locked/kafka",
            endpoint_url=server.endpoint_url,
            access_key=server.access_key,
            secret_key=server.secret_key,
        )
        assert len(copy_snapshots(source, target).copied) == 4
        assert copy_snapshots(source, target).already_there == 4
        assert [each.digest for each in visible_snapshots(target)] == [
            each.digest for each in visible_snapshots(source)
        ]
        (raw, *_) = [key for key in target.list("v1/") if key.endswith("raw.parquet")]
        version = client.head_object(Bucket="locked", Key=f"kafka/{raw}")["VersionId"]
        with pytest.raises(ClientError, match="AccessDenied"):
            client.delete_object(Bucket="locked", Key=f"kafka/{raw}", VersionId=version)


def test_a_store_is_not_copied_onto_itself(source):
    with pytest.raises(RefusedError, match="found the same one"):
        copy_snapshots(source, source)


def test_a_store_is_not_copied_among_its_own_objects(tmp_path):
    """They would be found as snapshots of neither."""
    outer, inner = (open_store(str(tmp_path / name)) for name in ("store", "store/v1/second"))
    for source, target in ((outer, inner), (inner, outer)):
        with pytest.raises(RefusedError, match="lies among the objects of the other"):
            copy_snapshots(source, target)
    assert copy_snapshots(outer, open_store(str(tmp_path / "store" / "second"))).copied == ()


def test_a_key_is_changed_by_a_new_first_line(tmp_path):
    old, new = (base64.b64encode(letter * 32) for letter in (b"o", b"n"))
    path = tmp_path / "snapshot.key"
    path.write_bytes(old)
    before = Sealer.from_file(path)
    old_one = before.of("alpha", "1")
    path.write_bytes(new + b"\n" + old + b"\n")
    after = Sealer.from_file(path)
    assert after.key_id != before.key_id
    both = after.of("alpha", "1")
    assert both.open("/p", old_one.seal("/p", b"secret")) == b"secret"
    sealed = both.seal("/p", b"secret")
    assert both.open("/p", sealed) == b"secret"
    with pytest.raises(SnapshotKeyError, match="sealed with none of 1 keys"):
        old_one.open("/p", sealed)
    path.write_bytes(new)
    assert Sealer.from_file(path).of("alpha", "1").open("/p", sealed) == b"secret"
