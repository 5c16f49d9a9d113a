"""Operations of the conformance contract."""

from tests.conformance_vector import Operation

OPS: dict[str, Operation] = {}
