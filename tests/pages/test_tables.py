"""Reading the cells: counts, order, notes, what is missing, what is refused."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nrs.pages import Agreement, Tolerance
from nrs.pages.numbers import mean_and_std
from nrs.pages.tables import read_tables
from tests.pages import samples


def read(*tables):
    return read_tables(tables, Tolerance())


def test_the_counts_are_those_of_the_cells():
    (table,) = read(samples.accuracy())
    counts = table.counts
    assert (counts.total, counts.run, counts.compared) == (18, 5, 4)
    assert (counts.agree, counts.better, counts.worse) == (2, 1, 1)
    assert (counts.failed, counts.timeout, counts.not_run) == (1, 1, 11)


VALUE = st.none() | st.floats(-100, 100) | st.just(math.nan)
CELLS = st.lists(
    st.tuples(VALUE, VALUE, st.sampled_from([None, "ok", "failed", "timeout", "not run"])),
    max_size=20,
)


@given(CELLS)
def test_every_cell_is_counted_once(values):
    cells = [samples.cell(i, "a", r, m, status=s) for i, (r, m, s) in enumerate(values)]
    (table,) = read({"name": "t", "cells": cells})
    counts = table.counts
    assert counts.total == len(values)
    assert counts.run + counts.failed + counts.timeout + counts.not_run == counts.total
    assert counts.run == sum(m is not None and not math.isnan(m) for _, m, _ in values)
    assert counts.compared <= counts.run
    assert all(cell.reason for cell in table.cells if not cell.was_run)


def test_rows_and_columns_keep_the_order_in_which_they_come():
    (table,) = read(samples.accuracy())
    assert table.rows[:4] == ["letter", "german", "MNIST", "ours"]
    assert table.columns == ["NRS", "RF", "GBDT"]


def test_a_note_is_numbered_once():
    (table,) = read(samples.accuracy())
    assert list(table.notes.values()) == list(range(1, len(table.notes) + 1))
    assert table.notes["timeout: more than 60 s"] == 1
    assert len([note for note in table.notes if "no such file" in note]) == 1


def test_missing_cells_are_grouped_by_reason():
    (table,) = read(samples.accuracy())
    missing = table.missing()
    assert missing["timeout: more than 60 s"] == "letter (GBDT)"
    assert "MNIST (NRS)" in missing["no such file"]
    assert missing["not run so far"] == "MNIST (RF)"
    (table,) = read({"name": "t", "cells": [samples.cell("a", "b"), samples.cell("c", "b")]})
    assert table.missing() == {"not run so far": "every cell"}
    cells = [samples.cell("a, b", "c"), samples.cell("d", "c"), samples.cell("e", "c", 1, 1)]
    (table,) = read({"name": "t", "cells": cells})
    assert table.missing() == {"not run so far": "“a, b”, d"}


def test_a_table_and_a_cell_may_set_their_own_rule():
    (table,) = read(samples.speed())
    found = {cell.column: cell.agreement for cell in table.cells}
    assert found["seconds"] is Agreement.UNCOMPARED
    assert found["error"] is Agreement.FAR_BETTER
    assert found["accuracy"] is Agreement.FAR_BETTER
    assert found["NDCG"] is Agreement.BETTER
    (table,) = read({**samples.speed(), "tolerance": None})
    assert table.counts.compared == 1


def test_numbers_of_numpy_and_failed_trials_are_read():
    cells = [
        samples.cell("a", "b", np.float32(1.5), np.float64(1.0), n=np.int64(4), status="failed"),
        samples.cell("c", "b", 1.0, float("nan"), status="ok"),
    ]
    (table,) = read({"name": "t", "cells": cells})
    assert [cell.outcome for cell in table.cells] == ["run", "failed"]
    assert table.cells[0].n == 4


def test_what_cannot_be_a_report_is_refused():
    with pytest.raises(ValueError, match=r"two of 'a' × 'b'"):
        read({"name": "t", "cells": [samples.cell("a", "b"), samples.cell("a", "b")]})
    with pytest.raises(ValueError, match="two are called 't'"):
        read({"name": "t", "cells": []}, {"name": "t", "cells": []})
    with pytest.raises(ValueError, match="'lost' in table 't'"):
        read({"name": "t", "cells": [samples.cell("a", "b", status="lost")]})
    with pytest.raises(ValueError, match="'t' has 'poem'"):
        read({"name": "t", "kind": "poem", "cells": []})


def test_anchors_are_plain_and_different():
    names = ["n_mul", "n-mul", "N mul", "…", "contents", "summary"]
    anchors = [table.anchor for table in read(*({"name": n, "cells": []} for n in names))]
    assert len(set(anchors)) == len(names)
    assert all(anchor.replace("-", "").isalnum() for anchor in anchors)
    assert not {"contents", "summary"} & set(anchors)


def test_a_column_is_written_with_the_decimals_of_the_paper():
    from nrs.pages.numbers import column_decimals

    cells = [samples.cell("a", "x", 91.5, 90), samples.cell("b", "x", 91.52, 90)]
    cells += [samples.cell("a", "y", 0.306, 0.3), samples.cell("a", "z", None, 1.2345)]
    (table,) = read({"name": "t", "cells": cells})
    assert column_decimals(table) == {"x": 2, "y": 3, "z": 2}
    assert mean_and_std(-0.5, 0.25, 2) == "−0.50 ± 0.25"
