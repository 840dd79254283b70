"""The README against the results that it is made from."""

import pytest

from benchmarks import readme


def test_the_readme_says_what_the_results_say():
    text = (readme.ROOT / "README.md").read_text(encoding="utf-8")
    assert readme.readme(readme.ROOT / "results", text) == text, "run python -m benchmarks.readme"


def test_a_changed_number_is_found(tmp_path):
    path = tmp_path / "README.md"
    text = (readme.ROOT / "README.md").read_text(encoding="utf-8")
    ours = next(line for line in text.splitlines() if line.startswith("| **NRS**"))
    path.write_text(text.replace(ours, ours.replace(".", ",", 1)), encoding="utf-8")
    with pytest.raises(SystemExit, match="not what the results say"):
        readme.main(["--check", "--readme", str(path)])


def test_a_page_without_a_place_for_the_table_is_refused():
    with pytest.raises(ValueError, match="one <!-- table --> block; got 0"):
        readme.readme(readme.ROOT / "results", "# nrs")


def test_names_of_points_do_not_overlap(tmp_path):
    pytest.importorskip("matplotlib")
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 3.5), dpi=200)
    axes = figure.add_subplot()
    found = {"NRS": (1.0, 1.0), "NRS fast": (1.1, 1.01), "RF": (1.2, 1.0), "HGB": (5.0, 2.0)}
    axes.scatter(*zip(*found.values(), strict=True))
    readme._label(figure, axes, found, "black")
    boxes = [text.get_window_extent() for text in axes.texts]
    assert [text.get_text() for text in axes.texts] == list(found)
    for place, box in enumerate(boxes):
        assert not any(box.overlaps(other) for other in boxes[place + 1 :])
