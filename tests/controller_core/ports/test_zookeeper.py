"""What the ports promise whoever implements them."""

import pytest

from controller_core.ports.zookeeper import require_path


@pytest.mark.parametrize("path", ["/", "/brokers", "/brokers/topics/a b"])
def test_a_path_is_absolute(path):
    assert require_path(path) == path


@pytest.mark.parametrize(
    "path",
    [
        pytest.param("", id="nothing"),
        pytest.param("brokers", id="relative"),
        pytest.param("/brokers/", id="ends in a slash"),
        pytest.param("/brokers//ids", id="an empty name"),
        pytest.param("/brokers\0", id="a null character"),
    ],
)
def test_no_other_path_is_taken(path):
    with pytest.raises(ValueError, match="expected an absolute path"):
        require_path(path)
