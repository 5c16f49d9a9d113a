"""What a comment cites can be opened: a Kafka class and version, a KIP, an issue of Kafka, or a page of docs/ that exists."""

import re

import pytest

from tests.source_files import ROOT

FILES = sorted(
    path
    for folder in ("controller_core", "plugins", "spark_jobs", "dags", "docs")
    for path in (ROOT / folder).rglob("*")
    if path.suffix in {".py", ".md"}
)
PAPERS = re.compile(
    r"§|controller[ -]behaviour|zookeeper-layout|snapshot-design|planner[ -]design|storage-and-services"
)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_paper_is_cited_that_is_not_in_the_repository(path):
    found = [line for line in path.read_text(encoding="utf-8").splitlines() if PAPERS.search(line)]
    assert found == []


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_cited_sections_exist(path):
    """`docs/page.md, "Section"` and `"Section" and "Another"`."""
    text = " ".join(path.read_text(encoding="utf-8").split())
    for page, sections in re.findall(r'(docs/[\w/-]+\.md), ((?:"[^"]+"(?: and )?)+)', text):
        headings = re.findall(r"^#+ (.*)$", (ROOT / page).read_text(encoding="utf-8"), re.MULTILINE)
        for section in re.findall(r'"([^"]+)"', sections):
            assert section in headings, f"{page} has no section {section!r}"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_half_merged_file_lies_here(path):
    assert re.findall(r"^(?:<{7} |>{7} ).*$", path.read_text(encoding="utf-8"), re.MULTILINE) == []
