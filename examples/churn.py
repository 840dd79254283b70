"""Write a table of made-up customers, some of whom left, to try the command line on.

    python examples/churn.py            # churn.csv (2,000 customers) and new.csv (200 more)

Columns of every kind: an identifier, numbers, categories, a date, missing values. Whether a
customer left depends on the contract, on how long they have been there, on what they pay for how
much support, and on chance.
"""

from __future__ import annotations

import argparse
import csv
from datetime import date, timedelta
from pathlib import Path

import numpy as np

CONTRACTS = ["monthly", "one year", "two years"]
PLANS = ["basic", "plus", "family"]


def customers(n: int, seed: int) -> list[dict[str, object]]:
    """Rows of `n` customers."""
    rng = np.random.default_rng(seed)
    rows = []
    for number in range(n):
        contract = rng.choice(3, p=[0.55, 0.25, 0.2])
        plan = rng.integers(3)
        months = int(min(72, rng.exponential(24)))
        price = round(15 + 14 * plan + rng.normal(0, 4) + (8 if contract == 0 else 0), 2)
        calls = int(rng.poisson(1.2 + 1.5 * (plan == 2)))
        usage = max(0.0, rng.normal(30 + 20 * plan, 15))
        left = (
            -1.4 + 1.6 * (contract == 0) - 1.2 * (contract == 2) - 0.05 * months
            + 0.07 * (price - 25) + 0.55 * calls - 0.03 * usage
        )  # fmt: skip
        rows.append(
            {
                "customer_id": f"C{seed}{number:05d}",
                "contract": CONTRACTS[contract],
                "plan": PLANS[plan] if rng.random() > 0.03 else "",
                "months": months,
                "monthly_price": price,
                "support_calls": calls,
                "usage_gb": round(usage, 1) if rng.random() > 0.08 else "",
                "joined": (date(2024, 6, 1) - timedelta(days=30 * months + 7)).isoformat(),
                "churned": "yes" if rng.random() < 1 / (1 + np.exp(-1.6 * left)) else "no",
            }
        )
    return rows


def write(path: Path, rows: list[dict[str, object]]) -> None:
    """Write rows as CSV."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def main() -> None:
    """Write both files."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--folder", type=Path, default=Path())
    parser.add_argument("--rows", type=int, default=2000)
    arguments = parser.parse_args()
    write(arguments.folder / "churn.csv", customers(arguments.rows, seed=0))
    write(arguments.folder / "new.csv", customers(200, seed=1))


if __name__ == "__main__":
    main()
