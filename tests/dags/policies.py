"""The policy of a test."""

import pytest
import yaml


@pytest.fixture
def policy(monkeypatch, tmp_path_factory):
    """Sets the policy of all clusters; says nothing until it is called."""
    path = tmp_path_factory.mktemp("policy") / "policy.yaml"
    monkeypatch.setenv("KAFKA_MAINTENANCE_POLICY", str(path))

    def says(**rules):
        path.write_text(yaml.safe_dump({"version": 1, "default": rules}))

    says()
    return says
