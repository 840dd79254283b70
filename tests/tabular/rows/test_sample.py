"""A sample of rows in files that depends on the rows alone."""

import numpy as np
import pyarrow

from nrs.tabular.rows.sample import RowSample


def test_the_sample_is_uniform_and_does_not_depend_on_the_order_of_reading():
    batch = pyarrow.record_batch({"k": np.arange(20_000)})
    forward, backward = RowSample(500), RowSample(500)
    for start in range(0, 20_000, 1000):
        forward.add(batch.slice(start, 1000), np.arange(start, start + 1000))
        back = 19_000 - start
        backward.add(batch.slice(back, 1000), np.arange(back, back + 1000))
    assert forward.rows.equals(backward.rows)
    assert len(forward.rows) == 500
    assert np.array_equal(forward.rows["k"].to_numpy(), forward.places)
    by_quarter = np.bincount(forward.places // 5000)
    assert by_quarter.min() > 80
