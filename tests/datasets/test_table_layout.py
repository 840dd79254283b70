"""Where the table in a text file is: what is above and below it, its names, how rows are cut."""

import pytest

from nrs.datasets.convert import notes_of
from nrs.datasets.table_file_errors import TableFileError
from nrs.datasets.table_files import read_table_file, stream_table_file
from nrs.datasets.table_layout import find_layout

ROWS = [(k / 2 + 0.25, 3 * k % 7, ("low", "high", "mid")[k % 3]) for k in range(40)]
NAMES = ["size", "rooms", "kind"]
POSITIONS = ["column 1", "column 2", "column 3"]


def _text(separator=",", end="", header=True):
    rows = ([NAMES] if header else []) + ROWS
    return "".join(separator.join(map(str, row)) + end + "\n" for row in rows)


# What a file looks like, what its columns are called, and a word of what is said.
FILES = {
    "comments": ("# exported by hand\n# 2024-01-01, second\n" + _text(), NAMES, "2 lines above"),
    "a title": ("Flats 2024\n\n" + _text(), NAMES, "1 line above"),
    "a title of a sheet": ("Flats 2024,,\n,,\n" + _text(), NAMES, "1 line above"),
    "facts above": ("Place:;Ulm\nUnit:;m\n\n" + _text(";"), NAMES, "2 lines above"),
    "what Excel is told": ("sep=;\n" + _text(";"), NAMES, ""),
    "blank lines": ("\n\n" + _text().replace("\n", "\n\n"), NAMES, ""),
    "no header": (_text(header=False), POSITIONS, "no header"),
    "empty columns": (_text(";", ";;"), NAMES, ""),
    "empty cells beyond": (_text(";", ";").replace("kind;", "kind"), NAMES, ""),
    "blanks after commas": (_text(", "), NAMES, ""),
    "aligned": (_text("   \t"), NAMES, ""),
    "aligned without header": (_text("    ", header=False), POSITIONS, "no header"),
    "single quotes": (_text().replace("low", "'l,w'"), NAMES, ""),
    "a source below": (_text() + "\nSource: me\nOf 2024\n", NAMES, "below the last row"),
    "header again": (_text() + _text(), NAMES, "repeat the header: 1"),
    "a total": (
        _text() + f"{sum(row[0] for row in ROWS)},{sum(row[1] for row in ROWS)},Total\n",
        NAMES, "adds up the others",
    ),
    "as R": (_text().replace("\n", "\n7,").removesuffix("7,"), ["column 1", *NAMES], ""),
}  # fmt: skip


@pytest.mark.parametrize("name", FILES)
def test_a_table_is_found_in_a_file_as_people_have_it(name, tmp_path):
    text, names, note = FILES[name]
    path = tmp_path / "a.csv"
    path.write_text(text)
    table = read_table_file(path)
    assert table.column_names == names
    size, rooms, kind = (table[one].to_pylist() for one in names[-3:])
    kind = ["low" if one == "l,w" else one for one in kind]
    times = 2 if name == "header again" else 1
    assert list(zip(size, rooms, kind, strict=True)) == ROWS * times
    assert note in "; ".join(notes_of(table))
    assert bool(note) == bool(notes_of(table))
    if name not in ("a source below", "header again", "a total"):
        # Where rows are predicted one chunk after the other, they are the same.
        kinds = dict(zip(names[-3:], ("number", "number", "category"), strict=True))
        chunks = list(stream_table_file(path, kinds))
        assert [row for one in chunks for row in one[names[-3]].to_pylist()] == size
        path.write_text("".join(text.splitlines(keepends=True)[:-38]))
        (few,) = stream_table_file(path, kinds)
        assert few[names[-3]].to_pylist() == size[: few.num_rows]


@pytest.mark.parametrize(
    ("head", "names"),
    [
        ("country,1990,1991,1992\n" + "x,1,2,3\n" * 9, ["country", "1990", "1991", "1992"]),
        ("0,1,2\n" + "5,6,7\n8,8,8\n" * 9, ["0", "1", "2"]),
        (",value\n" + "1,2\n" * 9, ["column 1", "value"]),
        ("a,b,a,\n" + "1,2,3,4\n" * 9, ["a", "b", "a.1", "column 4"]),
        ("a,a.1,a\n1,2,3\n", ["a", "a.1", "a.2"]),
        ("yes,no\n" + "no,yes\n" * 9, ["yes", "no"]),
        ("#,name\n" + "1,x\n2,y\n" * 9, ["#", "name"]),
        ("price\n" + "1:30\n" * 9, ["price"]),
    ],
)
def test_names_are_names(head, names):
    assert find_layout(head).names == names


def test_the_line_of_a_ragged_row_is_named(tmp_path):
    path = tmp_path / "a.csv"
    lines = ["Flats", "", "size,rooms,kind", *(f"{k},2,low" for k in range(30))]
    lines[20] = '"1\n2",3'
    path.write_text("\n".join(lines))
    message = "line 22 has 2 cells"
    with pytest.raises(TableFileError, match=message):
        read_table_file(path)
    with pytest.raises(TableFileError, match=message):
        list(stream_table_file(path, {"size": "number"}))


def test_a_row_that_is_cut_is_not_taken_for_a_remark(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text(_text() + "1,2\n")
    with pytest.raises(TableFileError, match="line 42 has 2 cells"):
        read_table_file(path)
