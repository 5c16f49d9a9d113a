"""What the help of each command says at its end: examples, and what the exit statuses 1 and 4 mean there.

A test parses every example with the parser, and compares the statuses with what the commands return.
"""

from collections.abc import Mapping
from typing import Final

_DIGEST: Final = "1a2b3c4d5e6f7a8b9c0d1a2b3c4d5e6f7a8b9c0d1a2b3c4d5e6f7a8b9c0d1a2b"
_PLAN: Final = "s3://backups/kafka/v1/cluster=blue/plans/elect_preferred_leaders-1a2b3c4d5e6f.json"
_ZOOKEEPER: Final = "--zookeeper zk1:2181,zk2:2181/kafka"

EXAMPLES: Final[Mapping[str, tuple[str, ...]]] = {
    "snapshot": (
        f"snapshot {_ZOOKEEPER} --cluster blue --store s3://backups/kafka",
        f"snapshot {_ZOOKEEPER} --cluster blue --store /backups --key-file snapshot.key",
    ),
    "snapshots list": ("snapshots list --store /backups --cluster blue --date 2026-11-20",),
    "snapshots show": ("snapshots show newest --store /backups --cluster blue",),
    "snapshots verify": ("snapshots verify 20261120T010203 --store /backups",),
    "snapshots fetch": ("snapshots fetch newest --store /backups --cluster blue --output /tmp/tables",),
    "snapshots pin": ("snapshots pin newest --store /backups --cluster blue --reason 'before the upgrade'",),
    "snapshots unpin": ("snapshots unpin 20261120T010203 --store /backups --reason 'upgrade done'",),
    "snapshots check": ("snapshots check --store /backups --sample 3",),
    "snapshots repair": ("snapshots repair --store /backups", "snapshots repair --store /backups --apply"),
    "snapshots copy": ("snapshots copy --store /backups --to s3://second/kafka",),
    "snapshots compact": (
        "snapshots compact --store /backups --month 2026-10",
        "snapshots compact --store /backups --check",
    ),
    "snapshots retain": (
        "snapshots retain --store /backups --keep-daily 30",
        f"snapshots retain --store /backups --keep-daily 30 --approve {_DIGEST}",
    ),
    "snapshots ls": ("snapshots ls newest /brokers/topics --store /backups --cluster blue",),
    "snapshots cat": ("snapshots cat newest /controller --store /backups --cluster blue",),
    "snapshots find": ("snapshots find newest '/config/topics/*' --containing retention.ms --store /backups",),
    "import": (
        "import /var/lib/zookeeper --cluster blue --store /backups --every 1h",
        "import /var/lib/zookeeper --cluster blue --store /backups --at 2026-11-20T02:00 --chroot /kafka",
    ),
    "export": ("export newest --cluster blue --store /backups --zookeeper-snapshot /var/lib/zookeeper/version-2",),
    "diff": (
        "diff 20261119T010203 newest --store /backups --cluster blue",
        f"diff newest {_ZOOKEEPER} --store /backups --cluster blue",
    ),
    "blame": (
        "blame orders-3 --store /backups --cluster blue",
        "blame /config/topics/orders --store /backups --cluster blue",
    ),
    "query": ("query 'SELECT cluster, count(*) FROM topics GROUP BY cluster' --store /backups",),
    "restore": (
        f"restore newest {_ZOOKEEPER} --store /backups --cluster blue --topics orders",
        f"restore 20261120T010203 {_ZOOKEEPER} --store /backups --cluster blue --topics orders --approve {_DIGEST}",
    ),
    "drill": ("drill --store /backups --cluster blue --kafka-version 3.9",),
    "kit": ("kit newest --store /backups --cluster blue --topics 'orders*' --output /tmp/kit",),
    "analyse": (
        "analyse --store /backups --date 2026-11-20",
        "analyse --store /backups --clusters blue --clusters red",
    ),
    "report": ("report --store /backups", "report --store /backups --date 2026-11-20 --html report.html"),
    "status": ("status --store /backups", "status --store /backups --fail-on warning"),
    "metrics": ("metrics --store /backups --output /var/lib/node_exporter/kafka_maintenance.prom",),
    "alarms list": ("alarms list --store /backups --mildest warning",),
    "alarms acknowledge": (
        "alarms acknowledge broker_down --cluster blue --store /backups --reason 'disk ordered, change 4711' --days 3",
    ),
    "plan elections": ("plan elections --store /backups --cluster blue --election-count-max 500",),
    "plan reassignment": (
        "plan reassignment --store /backups --cluster blue --drain-broker 3",
        "plan reassignment --store /backups --cluster blue --targets moves.json --throttle-bytes-per-s 50000000",
    ),
    "plan cancel": (f"plan cancel {_ZOOKEEPER} --store /backups --cluster blue",),
    "plan deletions": ("plan deletions orders-old --store /backups --cluster blue --bootstrap-servers broker1:9092",),
    "plan drain": (f"plan drain {_ZOOKEEPER} --store /backups --cluster blue",),
    "plan leaders": (f"plan leaders {_ZOOKEEPER} --store /backups --cluster blue --drain-broker 3",),
    "plan show": (f"plan show {_PLAN}",),
    "rollback": (f"rollback {_DIGEST} {_ZOOKEEPER} --store /backups --cluster blue",),
    "plan-file": (
        "plan-file state.json --output plan.json --rollback back.json --waves waves",
        "plan-file state.json --output plan.json --drain-broker 3 4 --certificate proof.json",
    ),
    "make-pools": ("make-pools",),
    "install-dags": ("install-dags $AIRFLOW_HOME/dags",),
    "kraft readiness": ("kraft readiness --store /backups --cluster blue",),
    "kraft fleet": ("kraft fleet --store /backups",),
    "kraft rehearse": ("kraft rehearse --store /backups --cluster blue --release-version 3.8",),
    "kraft runbook": ("kraft runbook --store /backups --cluster blue --rehearsal rehearsal.json",),
    "kraft watch": (f"kraft watch {_ZOOKEEPER} --follow",),
    "kraft left": ("kraft left --cluster blue --store /backups --reason 'finalised, change 4711'",),
    "kraft returned": ("kraft returned --cluster blue --store /backups --reason 'recorded by mistake'",),
    "apply": (f"apply {_PLAN}", f"apply {_PLAN} {_ZOOKEEPER} --approve {_DIGEST}"),
    "act-as-controller": (
        f"act-as-controller {_PLAN}",
        f"act-as-controller {_PLAN} {_ZOOKEEPER} --approve {_DIGEST} --may-act-as-controller",
    ),
    "audit verify": ("audit verify --store /backups --cluster blue --public-keys audit.pem.pub",),
    "audit export": ("audit export --store /backups --cluster blue",),
    "audit keygen": ("audit keygen /etc/kafka-maintenance/audit.pem",),
    "withdraw": ("withdraw elect_preferred_leaders.manual__2026-11-20 --store /backups --cluster blue",),
    "executions list": ("executions list --store /backups --cluster blue",),
    "executions show": (f"executions show {_DIGEST} --store /backups --cluster blue",),
    "verify": (f"verify {_PLAN} {_ZOOKEEPER}",),
    "stop": (f"stop {_DIGEST} --store /backups --cluster blue --reason 'peak hour'",),
    "cancel": (
        f"cancel {_DIGEST} {_ZOOKEEPER} --store /backups --cluster blue --bootstrap-servers broker1:9092 --reason 'peak hour'",
    ),
    "unlock": (f"unlock {_ZOOKEEPER} --store /backups --cluster blue",),
    "explain": (
        "explain --store /backups --cluster blue --broker-fails 3",
        "explain --store /backups --cluster blue --elect-preferred orders-0 orders-1",
        f"explain --store s3://backups/kafka --cluster blue --plan {_PLAN}",
    ),
    "lab": ("lab --zookeeper 127.0.0.1:2181/lab --kafka-version 3.9",),
    "drain": (f"drain {_ZOOKEEPER} --age-min-s 300",),
    "stack up": ("stack up", "stack up --kafka-version 2.8 --brokers 5 --no-airflow"),
    "stack down": ("stack down",),
    "stack status": ("stack status",),
    "completion": ("completion bash > ~/.local/share/bash-completion/completions/kafka-maintenance",),
}

_NOT_APPROVED: Final = "refused, or nothing applied without --approve"
_MAY_REFUSE: Final = "refused: the cluster is in KRaft mode or in migration, or the goal cannot be reached"

REFUSED: Final[Mapping[str, str]] = {
    "snapshot": "refused: the cluster has left ZooKeeper, or another one has its name",
    "snapshots repair": "nothing written without --apply",
    "snapshots copy": "a snapshot was not copied",
    "snapshots retain": _NOT_APPROVED,
    "restore": _NOT_APPROVED,
    "drill": "refused: brokers of --kafka-version cannot be started for ids as high as the snapshot's",
    **dict.fromkeys(
        ("plan elections", "plan reassignment", "plan cancel", "plan deletions", "plan drain", "plan leaders"),
        _MAY_REFUSE,
    ),
    "rollback": _MAY_REFUSE,
    "plan-file": "refused: the goal cannot be reached",
    "plan show": "refused: the plan was altered",
    "apply": _NOT_APPROVED,
    "act-as-controller": _NOT_APPROVED,
    "withdraw": "refused: the plan was begun",
    "stop": "refused: the plan has ended",
    "cancel": _NOT_APPROVED,
    "lab": "refused: no loopback, somebody's tree, or brokers that need more than is served",
    "unlock": _NOT_APPROVED,
}
"""Commands that can refuse, and when."""

FOUND: Final[Mapping[str, str]] = {
    "snapshots verify": "something is wrong with the snapshot",
    "snapshots check": "something is wrong in the store",
    "snapshots compact": "what is kept differs from its snapshots (--check)",
    "drill": "the restored tree differs",
    "status": "a cluster has a finding of the severity of --fail-on, or a worse one",
    "alarms list": "a finding is not acknowledged",
    "kraft readiness": "an obstacle stands, or something changed --since",
    "kraft fleet": "a cluster is not ready",
    "kraft rehearse": "no dual write at the first try, or a difference without a class",
    "kraft watch": "wait, or go back",
    "audit verify": "the chain is broken",
    "verify": "a prediction does not hold",
}
"""Commands that judge, and what they found when they end so."""
