"""What a column of texts is: tables written in any dialect read back equal, or are asked about."""

import csv
from datetime import date, datetime

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nrs.datasets.convert import Overrides, decisions
from nrs.datasets.dialects import times
from nrs.datasets.reading import Plan, decide, find_sentinels
from nrs.datasets.table_files import read_table_file

ORDERS = {"dmy": "%d{0}%m{0}%Y", "mdy": "%m{0}%d{0}%Y", "ymd": "%Y{0}%m{0}%d"}


def _number(value, decimal, grouped, places):
    text = f"{value:,.{places}f}" if grouped else f"{value:.{places}f}"
    return text.translate({ord("."): decimal, ord(","): "." if decimal == "," else ","})


@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_a_table_of_any_dialect_reads_back_equal_or_asks(data, tmp_path_factory):
    draw = data.draw
    n = draw(st.integers(25, 60))
    rng = np.random.default_rng(draw(st.integers(0, 1 << 30)))
    decimal = draw(st.sampled_from(".,"))
    separator = draw(st.sampled_from(",;\t|"))
    order, sign = draw(st.sampled_from(sorted(ORDERS))), draw(st.sampled_from("/-."))
    encoding = draw(st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "latin-1", "cp1252"]))
    quoting = draw(st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]))
    grouped, places = draw(st.booleans()), draw(st.sampled_from([0, 1, 2, 3]))
    nothing = draw(st.sampled_from(["", "NA", "n/a", "?", "-", "  "]))
    sentinel = draw(st.sampled_from([None, -999, -200, 9999]))
    numbers = np.round(rng.gamma(2, 300, n), places)
    counts = rng.integers(0, 300, n)
    days = [date.fromordinal(int(day)) for day in 737000 + rng.integers(0, 900, n)]
    words = rng.choice(["rød", "grün", "bleu", "café"], n)
    gone = rng.random(n) < 0.15
    # A line break in a header, columns that are none, lines above and below the table.
    name = draw(st.sampled_from(["größe", "größe,\nin m"]))
    trailing = draw(st.integers(0, 2))
    above = draw(st.sampled_from([[], [["# made by hand"]], [["Report 2024"], []]]))
    rows = [[name, "count", "day", "word"]]
    for k in range(n):
        number = nothing if gone[k] else _number(numbers[k], decimal, grouped, places)
        count = sentinel if sentinel is not None and k % 9 == 0 else counts[k]
        day = days[k].strftime(ORDERS[order].format(sign))
        rows.append([number, str(count), day, words[k]])
    names = [" ".join(name.split()), *rows[0][1:]]
    path = tmp_path_factory.mktemp("dialect") / "a.csv"
    with open(path, "w", encoding=encoding, newline="") as file:
        writer = csv.writer(file, delimiter=separator, quoting=quoting)
        writer.writerows([*above, *(row + [""] * trailing for row in rows)])
    table = read_table_file(path)
    notes = decisions(table)
    assert table.column_names == names
    asked = {name for name, note in notes.items() if note.ambiguous}
    if names[0] not in asked:
        found = table[names[0]].cast(pa.float64()).to_numpy()
        assert np.array_equal(np.isnan(found), gone)
        assert np.allclose(found[~gone], numbers[~gone])
    if "day" not in asked:
        found = [
            day.date() if isinstance(day, datetime) else day for day in table["day"].to_pylist()
        ]
        assert found == days
    expected = [None if sentinel is not None and k % 9 == 0 else counts[k] for k in range(n)]
    assert table["count"].to_pylist() == expected
    assert table["word"].to_pylist() == words.tolist()


@pytest.mark.parametrize(
    ("texts", "plan", "values"),
    [
        (
            ["1,200 sqft", "950 sqft", *(f"{k} sqft" for k in range(30))],
            {"thousands": ",", "units": ["sqft"]}, [1200, 950],
        ),
        (["€ 3.5", "€ 1,000.25"], {"thousands": ","}, [3.5, 1000.25]),
        (["$1.2M", "$500K", "$3.4K"], {}, [1.2e6, 5e5, 3400]),
        (["12 %", "7.5%"], {"units": ["%"]}, [12, 7.5]),
        (["1'200.5", "3'400'000"], {"thousands": "'"}, [1200.5, 3.4e6]),
        (["1 200,5", "3\u00a0400"], {"decimal": ",", "thousands": " "}, [1200.5, 3400]),
        (["1,23,456", "10,00,000", "99"], {"thousands": ","}, [123456, 1e6, 99]),
        (["(5.5)", "-3.25", "−1"], {}, [-5.5, -3.25, -1]),
    ],
)  # fmt: skip
def test_numbers_as_people_write_them(texts, plan, values):
    found = decide(texts).plan
    assert found is not None
    assert found.to_dict() == {"kind": "number"} | plan
    assert found.read(texts)[: len(values)].tolist() == values


@pytest.mark.parametrize(
    ("texts", "first"),
    [
        (["25/12/2024", "01/02/2024"], "2024-12-25"),
        (["12/25/2024 08:30", "01/02/2024 09:00"], "2024-12-25T08:30"),
        (["31.12.99", "01.01.00"], "1999-12-31"),
        (["12-Jan-20", "3-Feb-21"], "2020-01-12"),
        (["Dec-2015", "Aug-1998"], "2015-12-01"),
        (["March 3rd, 2020 4:05 PM", "May 1, 2021 11:00 AM"], "2020-03-03T16:05"),
        (["20240131", "20231225", "20230101", "20220505", "20210102"], "2024-01-31"),
        (["2024-01-31 23:59:59+02:00", "2024-01-31 10:00:00Z"], "2024-01-31T21:59:59"),
    ],
)
def test_dates_as_people_write_them(texts, first):
    found = decide(texts)
    assert found.plan is not None
    assert found.plan.kind == "date"
    assert not found.ambiguous
    assert found.plan.read(texts)[0] == np.datetime64(first)


@pytest.mark.parametrize(
    "texts",
    [
        ["01234", "10115", "99999"],
        ["+4930123456", "+4930654321"],
        ["555-1234", "555-9876", "555-4321"],
        ["18-24", "25-34", "35-44"],
        ["2", "3", "4", "5more"],
        ["1234567890123456", "1234567890123457"],
        ["12A", "7C", "19F", "3B"],
        ["PAL0708", "PAL0809"],
        ["2 BHK", "4 Bedroom", "1 RK"],
        ["1.2.3", "1.10.4"],
        ["red", "green", ""],
    ],
    ids=lambda texts: texts[0],
)
def test_codes_and_words_stay_text(texts):
    assert decide(texts).plan is None


def test_a_postcode_is_one_by_its_name():
    texts = ["10115", "20095", "80331"]
    assert decide(texts, name="Zip Code").plan is None
    assert decide(texts, name="price").plan == Plan("number")


def test_what_allows_two_readings_is_decided_by_the_file_or_asked(tmp_path):
    path = tmp_path / "a.csv"
    rows = "".join(f"0{k}/0{k + 1}/2024;1.{k}00;{20 + k}/12/2024;{k},5\n" for k in range(1, 9))
    path.write_text("start;price;end;kg\n" + rows)
    table = read_table_file(path)
    assert table["start"][0].as_py() == datetime(2024, 2, 1)
    assert table["price"][0].as_py() == 1100
    assert not any(note.ambiguous for note in decisions(table).values())
    path.write_text("start;n\n" + "".join(f"0{k}/0{k + 1}/2024;{k}\n" for k in range(1, 9)))
    assert decisions(read_table_file(path))["start"].ambiguous == "mdy"
    said = read_table_file(path, overrides=Overrides(dates="mdy"))
    assert said["start"][0].as_py() == datetime(2024, 1, 2)
    assert not decisions(said)["start"].ambiguous


def test_a_few_words_among_numbers_are_named_and_missing():
    texts = [str(k) for k in range(200)]
    found = decide([*texts, "4125Perch", "n/a"])
    assert found.plan == Plan("number")
    assert (found.lost, found.n_lost) == (("4125Perch",), 1)


@given(st.lists(st.floats(-1e6, 1e6), min_size=11, max_size=200, unique=True))
@settings(max_examples=50)
def test_a_value_that_occurs_once_is_no_sentinel(values):
    assert find_sentinels(np.array(values)) == ()


@pytest.mark.parametrize("value", [-999.0, -9999.0, 9999.0, 99999.0])
@pytest.mark.parametrize("high", [1.0, 50.0, 400.0])
def test_sentinels_are_found_wherever_they_are_far_away(value, high):
    cells = np.linspace(0, high, 300)
    cells[::10] = value
    assert find_sentinels(cells) == (value,)


def test_plans_are_json_values():
    plan = Plan("number", ",", ".", ("kg",), sentinels=(-9.0,), missing=("x",))
    assert Plan.from_dict(plan.to_dict()) == plan


def test_overrides_say_what_the_cells_do_not(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("a,b,c\n" + "".join(f'"1,{k}00",{k},x{k % 3}\n' for k in range(1, 10)))
    assert decisions(read_table_file(path))["a"].ambiguous == ","
    read = read_table_file(
        path, overrides=Overrides(decimal=",", na=("x1", "5"), types={"b": "category"})
    )
    assert read["a"][0].as_py() == 1.1
    assert read["b"].to_pylist() == ["1", "2", "3", "4", None, "6", "7", "8", "9"]
    assert read["c"].to_pylist()[:3] == [None, "x2", "x0"]
    with pytest.raises(ValueError, match="decimal must be"):
        Overrides(decimal=";")
    with pytest.raises(ValueError, match="must have the column 'd'"):
        read_table_file(path, overrides=Overrides(types={"d": "number"}))
    with pytest.raises(ValueError, match="must hold a date, as type=c=date says"):
        read_table_file(path, overrides=Overrides(types={"c": "date"}))


def test_empty_columns_without_a_name_are_left_out(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("a;b;;\n1;2;;\n3;4;;\n")
    assert read_table_file(path).column_names == ["a", "b"]


def test_texts_are_decided_by_a_glance(monkeypatch):
    texts = [f"the {k}th of many remarks" for k in range(20_000)]
    seen = []
    monkeypatch.setattr(
        "nrs.datasets.reading.times", lambda some: seen.append(len(some)) or times(some)
    )
    assert decide(texts).plan is None
    assert max(seen) < 100


def test_encodings_are_found(tmp_path):
    text = "name,n\n" + "".join(f"Müller & Söhne {k},{k}\n" for k in range(9))
    for encoding in ("utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "cp1252"):
        path = tmp_path / f"{encoding}.csv"
        path.write_bytes(text.encode(encoding))
        assert read_table_file(path)["name"][0].as_py() == "Müller & Söhne 0", encoding
