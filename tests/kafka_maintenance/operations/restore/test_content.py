"""Which notice tells the brokers of a change that a restore writes."""

import pytest

from kafka_maintenance.operations.restore.content import notice_of


@pytest.mark.parametrize(
    ("path", "notice"),
    [
        ("/config/topics/orders", ("/config/changes/config_change_", b'{"version":2,"entity_path":"topics/orders"}')),
        (
            "/config/users/u/clients/c",
            ("/config/changes/config_change_", b'{"version":2,"entity_path":"users/u/clients/c"}'),
        ),
        ("/kafka-acl/Topic/orders", ("/kafka-acl-changes/acl_changes_", b"Topic:orders")),
        (
            "/kafka-acl-extended/prefixed/TransactionalId/a",
            (
                "/kafka-acl-extended-changes/acl_changes_",
                b'{"version":1,"resourceType":"TRANSACTIONAL_ID","name":"a","patternType":"PREFIXED"}',
            ),
        ),
        ("/consumers/g/offsets/t/0", None),
        ("/config/topics", None),
    ],
)
def test_the_notice_of_a_change(path, notice):
    assert notice_of(path) == notice
