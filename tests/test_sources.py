"""What a comment cites can be opened: a Kafka class and version, a KIP, an issue of Kafka, a page of docs/ or a name of ours that exists."""

import re

import pytest

from tests.source_files import ROOT, python_files, text

FILES = sorted(
    path
    for folder in ("controller_core", "plugins", "spark_jobs", "dags", "docs")
    for path in (ROOT / folder).rglob("*")
    if path.suffix in {".py", ".md"}
)
PAPERS = re.compile(
    r"§|controller[ -]behaviour|zookeeper-layout|snapshot-design|planner[ -]design|storage-and-services"
)

QUOTED = re.compile(r"`(_*[a-z][\w.]*)(?:\(\))?`")
FOREIGN = {  # of kafka-python, Airflow, Linux and the module ssl
    "describe_cluster", "describe_topics", "_send_producer_data", "provider_info", "apache_airflow_provider", "begin_new_exec",
    "create_elf_tables", "VERIFY_X509_STRICT",
}  # fmt: skip
FILES_OF_OTHERS = {"airflow_local_settings.py"}


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


def test_a_name_that_a_comment_quotes_is_there():
    """Whoever renames something renames it in the sentences about it, too."""
    names = python_files("controller_core", "plugins", "spark_jobs", "dags", "tests")
    texts = {name: text(name) for name in names if name != "tests/test_sources.py"}
    words = {word for each in texts.values() for word in re.findall(r"\w+", re.sub(r"`[^`\n]*`", "", each))}
    words |= {name.rpartition("/")[2].removesuffix(".py") for name in texts}
    quoted = {
        (name, part)
        for name, each in texts.items()
        for found in QUOTED.findall(each)
        for part in found.split(".")
        if "_" in part.strip("_") and "__" not in part
    }
    assert {(name, part) for name, part in quoted if part not in words and part not in FOREIGN} == set()


def test_a_module_that_a_page_names_is_there():
    modules = {
        name.rpartition("/")[2] for name in python_files("controller_core", "plugins", "spark_jobs", "dags", "tests")
    }
    gone = {
        (path.name, named)
        for path in FILES
        if path.suffix == ".md"
        for named in re.findall(r"`(?:[\w/]+/)?(\w+\.py)`", path.read_text(encoding="utf-8"))
        if named not in modules | FILES_OF_OTHERS
    }
    assert gone == set()
