"""Short measurements in this process: a process each is what the layer's benchmark tests."""

import json

import numpy as np
import pytest

from benchmarks.measure import interleaved


@pytest.fixture
def here(monkeypatch):
    """Let a benchmark measure in this process, through JSON as from another."""

    def call(function, **arguments):
        return json.loads(json.dumps(function(**json.loads(json.dumps(arguments)))))

    return lambda benchmark: monkeypatch.setattr(benchmark, "in_fresh_process", call)


@pytest.fixture
def brief(monkeypatch):
    """Let a benchmark measure everything as seldom as it allows."""

    def call(candidates, **given):
        return interleaved(candidates, **given | {"seconds": 0.0})

    return lambda benchmark: monkeypatch.setattr(benchmark, "interleaved", call)


def made_table(n_rows, n_levels=3):
    """A frame with strings and missing cells, under names that some packages refuse; a number."""
    import pandas

    rng = np.random.default_rng(0)
    level = rng.integers(n_levels, size=n_rows)
    number = rng.normal(size=n_rows)
    names = np.array([f"level [{k}]" for k in range(n_levels)], dtype=object)[level]
    names[::7] = None
    number[::5] = np.nan
    noise = rng.normal(size=n_rows) * 0.3
    frame = pandas.DataFrame({"a, name": names, "size <m>": number})
    return frame, level - np.nan_to_num(number) + noise


@pytest.fixture
def mixed_folder(tmp_path, monkeypatch):
    """Two tables of 150 rows in a folder of data."""
    import pandas

    monkeypatch.setenv("NRS_DATA", str(tmp_path))
    (tmp_path / "mixed").mkdir()
    frame, value = made_table(150)
    classes = pandas.cut(value, [-99, 0, 2, 99], labels=False)
    frame.assign(target=classes).to_parquet(tmp_path / "mixed" / "loan.parquet")
    frame.assign(target=value).to_parquet(tmp_path / "mixed" / "ames.parquet")
    return tmp_path
