"""What a restore never brings back, whatever the snapshot holds."""

import pyarrow as pa
import pytest

from controller_core.adapters.snapshot.acls import OPEN_ACL
from kafka_maintenance.operations.restore.content import RestoreScope, restorable


@pytest.mark.parametrize("path", ["/controller", "/migration"])
@pytest.mark.parametrize(
    "scope", [RestoreScope(whole=True), RestoreScope(whole=True, requests=True, notifications=True)]
)
def test_what_belongs_to_a_rule_that_is_over_is_left_out(path, scope):
    paths = ["/", path, "/controller_epoch"]
    none = [None] * len(paths)
    raw = pa.table(
        {"path": paths, "data": [b"", b"{}", b"3"], "ephemeral_owner": [0, 0, 0], "acl": [OPEN_ACL] * 3, "left_out": pa.array(none, pa.string()),
         "sealed": pa.array(none, pa.binary())}
    )  # fmt: skip
    content = restorable(raw, scope)
    assert [znode.path for znode in content.znodes] == ["/", "/controller_epoch"]
    assert list(content.left_out) == [path]
