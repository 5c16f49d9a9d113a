"""Deleting topics. Source: controller behaviour §9; Kafka 3.9 `TopicDeletionManager`."""

from controller_core.eligibility import (
    DeletionEligibility,
    IneligibilityKind,
    IneligibilityReason,
    deletion_eligibility,
)

__all__ = ["DeletionEligibility", "IneligibilityKind", "IneligibilityReason", "deletion_eligibility"]
