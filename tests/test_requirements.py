"""What `make setup` and the image install is pinned, each file of it by its hash."""

import re

import pytest

from tests.source_files import ROOT


@pytest.mark.parametrize(
    ("name", "count_min"),
    [
        ("requirements.txt", 20),
        ("requirements-dev.txt", 20),
        ("requirements-kerberos.txt", 1),
        ("requirements-uv.txt", 1),
    ],
)
def test_each_pin_has_hashes(name, count_min):
    pins = (ROOT / name).read_text(encoding="utf-8").replace("\\\n", " ").splitlines()
    bare = [pin for pin in pins if not re.fullmatch(r"[\w.\[\]-]+==\S+ .*?(--hash=sha256:[0-9a-f]{64}\s*)+", pin)]
    assert len(pins) >= count_min
    assert bare == []


@pytest.mark.parametrize("name", [".ci/install", "Dockerfile", ".ci/kerberos"])
def test_nothing_is_installed_from_a_list_without_asking_for_the_hashes(name):
    installs = [line for line in (ROOT / name).read_text(encoding="utf-8").splitlines() if " -r " in line]
    assert installs
    assert [line for line in installs if "--require-hashes" not in line] == []
