"""Package graph, state diagrams and reference in docs/ are those of the code; the DAGs are compared in tests/dags."""

from tests.diagrams import PICTURES, not_drawn, picture_of
from tests.generated_docs import DIAGRAMS, DOCS, diagrams, pages, parts, written


def test_generated_parts_of_the_docs_are_current():
    made = parts()
    found = {page.name: page.read_text(encoding="utf-8") for page in pages(made)}
    assert {name: written(text, made) for name, text in found.items()} == found, "run `python -m tests.generated_docs`"


def test_every_generated_part_has_its_place():
    made = parts()
    text = "".join(page.read_text(encoding="utf-8") for page in pages(made))
    assert [name for name in made if f"<!-- generated: {name} -->" not in text] == []


def test_generated_diagrams_are_current():
    found = {name: (DIAGRAMS / f"{name}.mmd").read_text(encoding="utf-8") for name in diagrams()}
    assert found == diagrams(), "run `python -m tests.generated_docs`"


def test_every_diagram_is_drawn_and_stands_on_a_page():
    assert not_drawn() == [], "run `python -m tests.diagrams`"
    text = "".join(page.read_text(encoding="utf-8") for page in DOCS.glob("*.md"))
    pictures = [picture_of(source) for source in sorted(DIAGRAMS.glob("*.mmd"))]
    assert [each.name for each in pictures if f"({each.relative_to(DOCS)})" not in text] == []
    assert sorted(PICTURES.iterdir()) == pictures
