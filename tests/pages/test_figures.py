"""What the figures hold, for plotly and for PNG."""

import pytest

from nrs.pages import Tolerance
from nrs.pages.figures import EDGE, draw_overview, draw_panels
from nrs.pages.pictures import draw_figure
from nrs.pages.series import panels_of
from nrs.pages.tables import read_tables
from tests.pages import samples

go = pytest.importorskip("plotly.graph_objects", reason="needs plotly")


def read(*tables):
    return read_tables(tables, Tolerance())


def test_reported_and_measured_points_are_those_of_the_cells():
    (table,) = read(samples.study())
    (figure,) = draw_panels(table)
    reported, measured, other = figure["data"]
    assert reported["x"] == measured["x"] == [1, 5, 20, 100]
    assert measured["y"] == [cell.measured for cell in table.cells[:4]]
    assert reported["error_y"]["array"] == [0.1] * 4
    assert (reported["line"]["dash"], measured["line"]["dash"]) == ("dash", "solid")
    assert other["name"] == "USPS"
    assert other["showlegend"]
    assert figure["layout"]["xaxis"]["type"] == "log"


def test_numbers_as_text_are_numbers_and_come_in_order():
    cells = [samples.cell(x, "a", float(i), None) for i, x in enumerate(["10", "9", "2"])]
    (table,) = read({"name": "t", "kind": "figure", "cells": cells})
    (figure,) = draw_panels(table)
    assert figure["data"][0]["x"] == [2, 9, 10]
    assert figure["data"][0]["y"] == [2, 1, 0]


def test_data_sets_far_apart_get_a_panel_each():
    (table,) = read(samples.variants())
    panels = panels_of(table)
    assert [panel.title for panel in panels] == ["letter", "yeast"]
    assert [name for _, name in panels[0].ticks] == ["MLP-2", "MLP-3"]
    for panel in panels:
        low, high = panel.y_range
        assert all(low < v.mean < high for one in panel.series for v in one.values)
    shifted = samples.study()
    shifted["cells"] = [
        samples.cell(x, name, level + x, None)
        for name, level in (("a", 1), ("b", 50))
        for x in (1, 2)
    ]
    (table,) = read(shifted)
    assert [panel.title for panel in panels_of(table)] == ["a", "b"]


def test_the_overview_has_a_point_for_every_compared_cell():
    tables = read(*samples.everything())
    figure = draw_overview(tables)
    points = sum(len(trace["x"]) for trace in figure["data"])
    assert points == sum(table.counts.compared for table in tables)
    assert all(abs(x) <= EDGE for trace in figure["data"] for x in trace["x"])
    for trace in figure["data"]:
        inside = [abs(x) <= 1 for x in trace["x"]]
        assert inside == [trace["marker"]["symbol"] == "circle"] * len(inside)


def test_plotly_accepts_every_figure_and_finds_no_tags_in_names():
    tables = read(*samples.everything())
    figures = [panel for t in tables if t.kind == "figure" for panel in draw_panels(t)]
    for figure in [*figures, draw_overview(tables)]:
        assert "<img" not in go.Figure(figure).to_json()
        assert "<img" not in str(figure)


@pytest.mark.parametrize("table", [samples.study(), samples.variants(), samples.nasty()[1]])
def test_the_picture_is_a_png_and_the_same_each_time(table):
    pytest.importorskip("matplotlib", reason="needs matplotlib")
    (table,) = read(table)
    picture = draw_figure(table)
    assert picture.startswith(b"\x89PNG")
    assert picture == draw_figure(table)


@pytest.mark.parametrize(
    "cells",
    [[samples.cell("a", "b")], [samples.cell(1, "b", 0.0, 0.0)], [samples.cell("a", "b", 5)]],
)
def test_figures_with_hardly_a_value_are_drawn(cells):
    (table,) = read({"name": "t", "kind": "figure", "cells": cells})
    assert draw_panels(table)
    assert draw_figure(table)
