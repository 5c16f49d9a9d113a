"""Values read into classes whose fields have types."""

from dataclasses import dataclass

import msgspec
import pytest

from controller_core.model.typed import converted, decoder_of


@dataclass
class Named:
    name: str


def test_fields_have_their_types_or_are_refused():
    assert converted({"name": "a"}, Named) == decoder_of(Named).decode(b'{"name": "a"}') == Named("a")
    with pytest.raises(msgspec.ValidationError, match="Expected `str`, got `int`"):
        converted({"name": 1}, Named)
