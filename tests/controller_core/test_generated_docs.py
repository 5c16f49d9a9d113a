"""Package graph, state diagrams and reference in docs/ are those of the code; the DAGs are compared in tests/dags."""

from tests.generated_docs import pages, parts, written


def test_generated_parts_of_the_docs_are_current():
    made = parts()
    found = {page.name: page.read_text(encoding="utf-8") for page in pages(made)}
    assert {name: written(text, made) for name, text in found.items()} == found, "run `python -m tests.generated_docs`"


def test_every_generated_part_has_its_place():
    made = parts()
    text = "".join(page.read_text(encoding="utf-8") for page in pages(made))
    assert [name for name in made if f"<!-- generated: {name} -->" not in text] == []
