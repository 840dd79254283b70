"""The page and the Markdown as files: structure, escaping, counts, no address outside."""

import re
import sys
from html.parser import HTMLParser

import pytest

from nrs.pages import Tolerance, write_report
from nrs.pages.tables import read_tables
from tests.pages import samples

pytest.importorskip("plotly", reason="needs plotly")
pytest.importorskip("matplotlib", reason="needs matplotlib")

ENVIRONMENT = {
    "commit": "0c111cc",
    "versions": {"torch": "2.9"},
    "machine": {"cores": 2, "GPU": None},
}
EMPTY = {"meta", "input"}


class Page(HTMLParser):
    """Elements as (name, attributes), ids, and the text of each cell of each table."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.ids, self.open, self.tables = [], [], [], []
        self.errors = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.elements.append((tag, attrs))
        self.ids += [attrs["id"]] if "id" in attrs else []
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self.tables[-1][-1].append("")
        if tag not in EMPTY:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if self.open.pop() != tag:
            self.errors.append(tag)

    def handle_data(self, data):
        if {"td", "th"} & set(self.open):
            self.tables[-1][-1][-1] += data


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report") / "new" / "folder"
    path = write_report(samples.everything(), folder, environment=ENVIRONMENT)
    text = path.read_text("utf-8")
    # The library is not ours to judge, and it is long.
    scripts = re.findall(r"<script>.*?</script>", text, re.DOTALL)
    short = re.sub(r"<script>.*?</script>", "", text, flags=re.DOTALL)
    return {
        "path": path,
        "text": text,
        "short": short,
        "scripts": scripts,
        "page": Page(short),
        "markdown": path.with_name("report.md").read_text("utf-8"),
    }


def test_the_page_is_whole_and_says_its_language(report):
    page = report["page"]
    assert report["text"].startswith("<!doctype html>")
    assert not page.errors
    assert not page.open
    assert ("html", {"lang": "en"}) in page.elements
    assert len(page.ids) == len(set(page.ids))
    names = [name for name, _ in page.elements]
    assert names.count("h1") == 1
    assert names.count("caption") == names.count("table")
    targets = [a["href"] for name, a in page.elements if name == "a"]
    assert targets
    assert all(target.startswith("#") and target[1:] in page.ids for target in targets)


def test_nothing_comes_from_outside(report):
    page = report["page"]
    for name, attributes in page.elements:
        assert name not in ("link", "iframe", "img", "object", "embed", "base", "form")
        for key in ("src", "href", "srcset", "action", "data"):
            assert "//" not in (attributes.get(key) or "")
    assert not re.search(r"url\(|@import", report["short"])
    policy = next(a["content"] for _, a in page.elements if a.get("http-equiv"))
    assert "default-src 'none'" in policy
    assert "http" not in policy
    assert len([script for script in report["scripts"] if len(script) > 1_000_000]) == 1


def test_text_is_never_markup(report):
    page = report["page"]
    assert "<img" not in report["short"]
    assert not [a for _, a in page.elements if any(key.startswith("on") for key in a)]
    # Every place of the text shows it as it is.
    titles = [
        table for table in page.tables if any(samples.NASTY in c for row in table for c in row)
    ]
    assert len(titles) >= 2
    assert not re.search(r"(?<!\\)<img", report["markdown"])


def test_the_headline_counts_the_cells(report):
    tables = read_tables(samples.everything(), Tolerance())
    run, total = sum(t.counts.run for t in tables), sum(t.counts.total for t in tables)
    agree, compared = sum(t.counts.agree for t in tables), sum(t.counts.compared for t in tables)
    for text in (report["short"], report["markdown"]):
        assert f"{run} of {total} cells were run." in text
        assert f"{agree} of the {compared} that can be compared agree" in text
    assert "max(1.5 points, 2 · combined standard deviation)" in report["short"]


def test_a_cell_shows_reported_and_measured_with_a_symbol_and_a_reason(report):
    grid = {row[0]: row[1:] for row in report["page"].tables[0]}
    assert grid["letter"][0].startswith("97.92±0.12✓")
    assert grid["letter"][0].endswith("97.85±0.10")
    assert "▲" in grid["letter"][1]
    assert grid["letter"][2].startswith("timeout")
    assert "▼▼" in grid["german"][0]
    assert grid["MNIST"][0].startswith("not run")
    assert "not in the paper" in grid["ours"][0]
    assert grid["win / tie / lose"] == ["–", "3 / 1 / 0", "2 / 2 / 0"]
    assert grid["average rank"] == ["1.25", "2.00", "2.75"]
    titles = [a.get("title", "") for name, a in report["page"].elements if name == "td"]
    assert any("(5 trials)" in title and "epochs are not known" in title for title in titles)
    assert any("no such file" in title for title in titles)


def test_long_tables_can_be_searched_and_short_ones_need_not(report):
    boxes = [a["data-filter"] for _, a in report["page"].elements if "data-filter" in a]
    assert boxes == ["accuracy-t"]
    assert boxes[0] in report["page"].ids


def test_the_markdown_table_holds_the_same_cells(report):
    section = report["markdown"].split("## Accuracy\n")[1].split("\n## ")[0]
    lines = [line.strip("| ").split(" | ") for line in section.splitlines() if line[:1] == "|"]
    assert lines[0] == ["data set", "NRS", "RF", "GBDT"]
    assert lines[2][0] == '<a id="accuracy-letter"></a>letter'
    rows = {re.sub("<a id=.*</a>", "", line[0]): line[1:] for line in lines[2:]}
    assert list(rows)[:4] == ["letter", "german", "MNIST", "ours"]
    assert rows["letter"] == [
        "97.92 ± 0.12 ✓ (97.85 ± 0.10)",
        "98.00 ▲ (96.14)",
        "timeout (94.66) <sup>1</sup>",
    ]
    assert rows["ours"][0] == "88.00"
    assert rows["**win / tie / lose**"] == ["–", "3 / 1 / 0", "2 / 2 / 0"]
    assert "1. timeout: more than 60 s" in section


def test_every_row_of_a_markdown_table_has_as_many_cells_as_its_head(report):
    width = None
    for line in report["markdown"].splitlines():
        if not line.startswith("|"):
            width = None
            continue
        cells = len(re.findall(r"(?<!\\)\|", line))
        width = width or cells
        assert cells == width


def test_the_pictures_of_the_markdown_are_there(report):
    links = re.findall(r"\]\((images/[^)]+)\)", report["markdown"])
    assert "images/accuracy-ranks.png" in links
    assert "images/n-mul.png" in links
    folder = report["path"].parent
    assert {folder / link for link in links} == set((folder / "images").iterdir())
    assert all((folder / link).read_bytes().startswith(b"\x89PNG") for link in links)
    assert {p.name for p in folder.iterdir()} == {"index.html", "report.md", "images"}


def test_the_environment_and_what_is_missing_are_told(report):
    for text in (report["short"], report["markdown"]):
        assert "0c111cc" in text
        assert "torch" in text
        assert "no such file" in text


def test_the_same_tables_give_the_same_files(report, tmp_path):
    path = write_report(samples.everything(), tmp_path, environment=ENVIRONMENT)
    assert path.read_text("utf-8") == report["text"]
    assert path.with_name("report.md").read_text("utf-8") == report["markdown"]


@pytest.mark.parametrize(
    "tables", [[], [{"name": "t", "cells": []}], [{"name": "t", "kind": "figure"}]]
)
def test_a_report_of_nothing_is_a_page(tables, tmp_path):
    path = write_report(tables, tmp_path)
    assert "None of the 0 cells has been run yet." in path.read_text("utf-8")
    assert "No facts" in path.with_name("report.md").read_text("utf-8")


def test_another_tolerance_is_stated_and_applied(tmp_path):
    tables = [{"name": "t", "cells": [samples.cell("a", "b", 90, 80)]}]
    text = write_report(tables, tmp_path, tolerance=Tolerance(10, 3)).read_text("utf-8")
    assert "max(10 points, 3 · combined standard deviation)" in text
    assert "1 of the 1 that can be compared agree" in text


def test_a_lead_takes_the_place_of_the_count_and_a_rule_is_quoted(tmp_path):
    tables = [{"name": "t", "cells": [samples.cell("a", "b", 90, 80) | {"tolerance": 12.0}]}]
    rule = Tolerance(0, 0, rule="Every cell has its own.")
    path = write_report(tables, tmp_path, tolerance=rule, lead="NRS wins nothing.")
    for text in (path.read_text("utf-8"), path.with_name("report.md").read_text("utf-8")):
        assert "1 of 1 cells were run. NRS wins nothing. Nothing is missing." in text
        assert "Every cell has its own." in text
        assert "that can be compared agree" not in text


def test_a_count_is_the_printed_number_or_another_one():
    cells = [
        samples.cell("a", "params", 1.78, measured) | {"tolerance": 0.005, "exact": True}
        for measured in (1.776, 1.774)
    ]
    cells[1]["row"] = "b"
    table = read_tables([{"name": "t", "cells": cells}], Tolerance())[0]
    assert [cell.agreement.label for cell in table.cells] == ["agrees", "differs"]
    assert (table.counts.agree, table.counts.differ, table.counts.better) == (1, 1, 0)


@pytest.mark.parametrize("library", ["plotly.offline", "matplotlib.figure"])
def test_a_missing_library_names_the_extra(library, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(ImportError, match=r"pip install 'neural-random-subspace\[plots\]'"):
        write_report([samples.study()], tmp_path / "out")
    assert not (tmp_path / "out").exists()
