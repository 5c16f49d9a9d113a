"""What is made of a page's values, whatever text stands in them."""

import csv
import io
import json
import re
from dataclasses import replace

import pytest

from kafka_maintenance.web import render
from kafka_maintenance.web.blocks import Cell, Choice, Column, Form, Note, Page, Table


def table_of(*texts):
    return Table(id="t", caption="c", columns=(Column("a"),), rows=[(Cell(text),) for text in texts])


@pytest.mark.parametrize("begin", ["=", "+", "-", "@", "\t", "\r", "\n"], ids=repr)
def test_no_text_of_a_download_is_a_formula(begin):
    _, row = csv.reader(io.StringIO(render.table_csv(table_of(f"{begin}=1+1")), newline=""))
    assert row == [f"'{begin}=1+1"]


def test_a_text_that_utf_8_cannot_have_takes_no_page():
    text = json.loads(r'"a \udcff b"')
    page = Page(title=text, head=[Note(text)], sections=())
    assert r"a \udcff b" in render.page_html(page, nonce="n").encode().decode()
    assert json.loads(render.page_json(page))["head"][0]["text"] == text
    assert r"a \udcff b" in render.table_csv(table_of(text)).encode().decode()


@pytest.mark.parametrize(
    ("searchable", "says"),
    [(True, "Search and order are of the 2 rows above"), (False, "The order is of the 2 rows above")],
)
def test_rows_that_are_not_shown_are_not_said_to_be_searched(searchable, says):
    table = replace(table_of("a", "b", "c"), rows_shown_max=2, more=1_000, searchable=searchable)
    html = render.page_html(Page(title="t", head=[table]), nonce="n")
    assert f"1,001 more rows are not shown. {says}; the download has 3." in html


@pytest.mark.parametrize(
    ("value", "options"),
    [
        pytest.param("beta", [("alpha", ""), ("beta", " selected")], id="a choice"),
        pytest.param("", [("alpha", ""), ("beta", "")], id="none is chosen"),
        pytest.param(
            "gone", [("gone", " selected"), ("alpha", ""), ("beta", "")], id="a cluster that is listed no more"
        ),
    ],
)
def test_a_form_shows_the_value_of_its_page(value, options):
    field = Choice(name="cluster", label="Cluster", value=value, choices=[("alpha", "alpha"), ("beta", "beta")])
    page = Page(title="t", head=[Form(action="kraft", button="Show", fields=[field])])
    assert re.findall(r'<option value="(\w+)"( selected)?>', render.page_html(page, nonce="n")) == options
