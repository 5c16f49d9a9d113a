"""The site of `make docs` is built without a warning, loads nothing from elsewhere, and its reference of settings names all there are."""

import logging
import re
from dataclasses import fields

import pytest
import yaml
from mkdocs.commands.build import build
from mkdocs.config import load_config

from kafka_maintenance.connections.clusters import CLUSTERS_VARIABLE
from kafka_maintenance.connections.store import STORE_VARIABLE
from kafka_maintenance.hooks import OPEN_GATED_RUNS_VARIABLE
from kafka_maintenance.tasks.settings import Settings
from tests.source_files import ROOT, python_files, text

SETTINGS = (ROOT / "docs" / "reference" / "settings.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The folder of the site and the warnings of its build."""
    folder, said = tmp_path_factory.mktemp("site"), []

    class Listener(logging.Handler):
        def emit(self, record):
            said.append(record.getMessage())

    listener = Listener(logging.WARNING)
    logging.getLogger("mkdocs").addHandler(listener)
    try:
        build(load_config(str(ROOT / "mkdocs.yml"), site_dir=str(folder)))
    finally:
        logging.getLogger("mkdocs").removeHandler(listener)
    return folder, said


def test_every_link_and_anchor_leads_somewhere(site):
    _, said = site
    assert said == []


def test_nothing_is_loaded_from_another_host(site):
    folder, _ = site
    pages = list(folder.rglob("*.html"))
    assert len(pages) > 30
    loaded = {
        (page.name, address)
        for page in pages
        for address in re.findall(
            r"<(?:script|link|img)\b[^>]*?(?:src|href)=\"([^\"]+)\"", page.read_text(encoding="utf-8")
        )
        if re.match(r"https?:|//", address)
    }
    assert loaded == set()


def test_every_picture_stands_on_a_page_and_is_taken_by_the_tests_of_the_pages():
    pictures = {path.stem for path in (ROOT / "docs" / "images").glob("*.png")}
    shown = re.findall(r"!\[.+?\]\(images/(\w+)\.png\)", (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8"))
    taken = (ROOT / "tests" / "dags" / "test_pages.py").read_text(encoding="utf-8").partition("PICTURES = {")[2]
    of_pages = set(re.findall(r"(?m)^    \"(\w+)\": \(", taken.partition("\n}\n")[0]))
    red_run = (ROOT / "tests" / "dags" / "test_red_run.py").read_text(encoding="utf-8")
    assert set(shown) == pictures == of_pages | set(re.findall(r"PICTURES_TAKEN / \"(\w+)\.png\"", red_run))


def test_every_page_is_in_the_table_of_contents():
    listed = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    pages = {str(page.relative_to(ROOT / "docs")) for page in (ROOT / "docs").rglob("*.md")}
    assert [page for page in sorted(pages) if page not in listed] == []
    assert yaml.safe_load(listed)["validation"]["anchors"] == "warn"


def test_each_decision_has_a_number_of_its_own_and_the_title_that_the_site_shows():
    pages = sorted((ROOT / "docs" / "adr").glob("*.md"))
    assert [int(page.name[:4]) for page in pages] == list(range(1, len(pages) + 1))
    listed = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    titles = {page: page.read_text(encoding="utf-8").splitlines()[0].removeprefix("# ") for page in pages}
    assert [page.name for page, title in titles.items() if f'"{title}": adr/{page.name}' not in listed] == []


def can_be_run(module):
    path = (ROOT if module.startswith("tests.") else ROOT / "plugins").joinpath(*module.split("."))
    if path.is_dir():
        return (path / "__main__.py").is_file()
    file = path.with_suffix(".py")
    return file.is_file() and '\nif __name__ == "__main__":\n' in file.read_text(encoding="utf-8")


def test_each_module_that_a_page_runs_is_there_and_can_be_run():
    pages = (path.relative_to(ROOT) for path in (ROOT / "docs").rglob("*.md"))
    texts = map(text, [*pages, "README.md", "CONTRIBUTING.md", "Makefile", *python_files("tests")])
    named = {each for page in texts for each in re.findall(r"python -m ((?:tests|kafka_maintenance)[.\w]*\w)", page)}
    assert len(named) > 40
    assert [module for module in sorted(named) if not can_be_run(module)] == []


def test_every_setting_of_the_environment_is_in_the_reference():
    sources = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "plugins").rglob("*.py"))
    named = set(re.findall(r"\"(KAFKA_MAINTENANCE_[A-Z_]*[A-Z])\"", sources))
    named |= {f"KAFKA_MAINTENANCE_{each.name.upper()}" for each in fields(Settings)}
    assert set(re.findall(r"(?m)^\| `(KAFKA_MAINTENANCE_\w+)` \|", SETTINGS)) == named


@pytest.mark.parametrize(
    "setting", [each for each in fields(Settings) if each.name != "scratch"], ids=lambda each: each.name
)
def test_the_default_of_a_setting_is_that_of_the_code(setting):
    shown = "none" if setting.default in {None, ()} else f"`{setting.default}`"
    assert f"| `KAFKA_MAINTENANCE_{setting.name.upper()}` | {shown} |" in SETTINGS


def test_every_variable_of_airflow_is_in_the_reference():
    assert set(re.findall(r"(?m)^\| `(kafka_maintenance_\w+)` \|", SETTINGS)) == {
        CLUSTERS_VARIABLE, STORE_VARIABLE, OPEN_GATED_RUNS_VARIABLE,
    }  # fmt: skip
