"""Which ACLs of an earlier snapshot are taken over: none that another history of the ensemble may have replaced."""

import numpy as np
import pyarrow as pa
import pytest

from controller_core.adapters.snapshot.acls import ACL_KEY, OPEN_ACL, KnownAcls
from controller_core.adapters.snapshot.cut import Znode
from controller_core.adapters.zookeeper.multi_read import STAT

CZXID, CTIME = 7, 1_700_000_000_000
EPOCH = 1 << 32


def znode(aversion, czxid=CZXID):
    return Znode(b"", STAT.pack(czxid, 9, CTIME, 9, 0, 0, aversion, 0, 0, 0, 9))


@pytest.mark.parametrize(
    ("known_at", "cut_at", "carried"),
    [
        pytest.param(EPOCH + 5, EPOCH + 6, {"/created", "/changed"}, id="later in the same epoch"),
        pytest.param(EPOCH + 5, EPOCH + 5, {"/created"}, id="the same zxid: as many transactions since a roll-back"),
        pytest.param(EPOCH + 5, EPOCH + 4, {"/created"}, id="rolled back"),
        pytest.param(EPOCH + 5, 2 * EPOCH + 6, {"/created"}, id="another leader, or an export with --next-epoch"),
    ],
)
def test_acls_that_were_changed_are_taken_over_within_one_epoch(known_at, cut_at, carried):
    known = KnownAcls(
        zxid=known_at,
        paths=pa.array(["/created", "/changed", "/again", "/anew"]),
        keys=np.array([(CZXID, CTIME, aversion) for aversion in (0, 1, 1, 0)], dtype=ACL_KEY),
        acls=pa.array([OPEN_ACL] * 4).dictionary_encode(),
    )
    cut = {"/created": znode(0), "/changed": znode(1), "/again": znode(2), "/anew": znode(0, czxid=8)}
    assert known.still_valid(cut, cut_at) == dict.fromkeys(carried, OPEN_ACL)
