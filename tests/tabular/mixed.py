"""A small table with a column of every kind."""

import numpy as np
import pandas as pd


def mixed_table(n=200, seed=0):
    """Numbers, booleans, categories (two, few and many levels) and dates, with missing cells."""
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(
        {
            "age": rng.normal(40, 10, n),
            "year": rng.integers(1990, 2024, n),
            "member": rng.random(n) < 0.5,
            "colour": rng.choice(["red", "green", "blue", "ünïcode"], n),
            "side": rng.choice(["left", "right"], n),
            "street": [f"street {i}" for i in rng.integers(0, 90, n)],
            "since": pd.Timestamp("2019-03-01")
            + pd.to_timedelta(rng.integers(0, 4 * 365 * 86400, n), unit="s"),
            "spent": pd.to_timedelta(rng.integers(0, 10_000, n), unit="s"),
            "always": 1.0,
        }
    )
    target = (table["age"] > 40) ^ (table["colour"] == "red")
    table.loc[::7, "age"] = np.nan
    table.loc[::5, "colour"] = None
    table.loc[::11, "since"] = pd.NaT
    table["active"] = pd.array(rng.random(n) < 0.3, dtype="boolean")
    table.loc[::9, "active"] = pd.NA
    return table, target.to_numpy()


def strange_rows(table):
    """Rows with unseen categories, unusual dates, and cells missing where training had none."""
    rows = table.head(40).copy()
    rows.loc[0, "colour"] = "mauve"
    rows.loc[1, "side"] = None
    rows.loc[2, "side"] = "above"
    rows.loc[3, "street"] = "elsewhere"
    rows.loc[4, "since"] = pd.Timestamp("1904-02-29 23:59:59")
    rows.loc[5, "since"] = pd.Timestamp("2096-12-31 06:00:00")
    rows.loc[6, "age"] = 1e30
    rows["year"] = rows["year"].astype(float)
    rows.loc[8, "year"] = np.nan
    return rows
