"""Write scikit-learn's table of wines as two CSV files, to try the command line on.

    python examples/wine.py             # wine.csv (140 bottles) and new.csv (38 others)

178 bottles of three cultivars, with 13 chemical measurements each.
"""

from pathlib import Path

from sklearn.datasets import load_wine

N_FITTED = 140


def main() -> None:
    """Write both files where one is."""
    wine = load_wine(as_frame=True)
    frame = wine.data.assign(cultivar=wine.target_names[wine.target])
    # The table is sorted by cultivar.
    frame = frame.sample(frac=1, random_state=0)
    for name, rows in (("wine.csv", frame[:N_FITTED]), ("new.csv", frame[N_FITTED:])):
        rows.to_csv(Path(name), index=False)
        print(f"{len(rows)} rows in {name}")


if __name__ == "__main__":
    main()
