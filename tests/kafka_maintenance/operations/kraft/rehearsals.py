"""A rehearsal that passed, without servers."""

from kafka_maintenance.operations.kraft.certificate import certify
from kafka_maintenance.operations.kraft.rehearsal.attempt import Cost
from kafka_maintenance.operations.kraft.rehearsal.copy import copy_of
from kafka_maintenance.operations.kraft.rehearsal.report import Rehearsal
from kafka_maintenance.operations.kraft.rehearsal.run import Outcome, Quorum
from tests.kafka_maintenance.operations.kraft.trees import MANIFEST, tree


def rehearsal(migrated_s):
    outcome = Outcome(
        reached=True, obstacles=(), unexplained=(), differences=(), record_counts={"TOPIC": 1}, attempts=1,
        cost=Cost(0.5, migrated_s, 1, 1), total_s=9.0, rest=copy_of(tree()),
    )  # fmt: skip
    return Rehearsal(certificate=certify(tree(), MANIFEST), quorum=Quorum(), outcome=outcome, left_out={})
