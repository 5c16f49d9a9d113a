"""How the report's page is written."""

from matplotlib.figure import Figure

from spark_jobs.report.page import Plot, Section, Table, html_page, markdown_page

PAGE = (
    Section("All clusters", ("2 clusters.",), (Table("Worst first", ("cluster", "moves"), (("a<b", 3),)),)),
    Section("Cluster a<b", (), (
        Table("Findings", ("severity", "share"), (("critical", "12.5 %"), ("info", None))),
        Table("Plan: 3 moves", (), (("Receive: broker | 5.",),), "See plans/."),
        Plot("load", Figure(figsize=(1, 1))),
    )),
)  # fmt: skip


def test_the_page_escapes_links_and_aligns():
    page = html_page("Report", "Run <r>", PAGE)
    for words in (
        "<p>Run &lt;r&gt;</p>",
        '<a href="#s1">a&lt;b</a>',
        '<h2 id="s1">Cluster a&lt;b</h2>',
        '<td class="number">3</td>',
        '<span class="critical">critical</span>',
        '<td class="number">12.5 %</td>',
        "<li>Receive: broker | 5.</li>",
        '<img alt="load" src="data:image/png;base64,',
    ):
        assert words in page
    assert "<script" not in page


def test_markdown_has_all_but_the_pictures():
    text = markdown_page("Report", "Run `r`.", PAGE)
    assert "| a<b | 3 |" in text
    assert "* Receive: broker | 5.\n\nSee plans/." in text
    assert "png" not in text
