"""Draw trees of a fitted model: docs/images/tree.png, forest.png and importance.png.

Run by `make figures`.
"""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")

from sklearn.datasets import load_wine

from nrs import NRSClassifier, explain

TARGET = Path(__file__).parents[1] / "images"


def main() -> None:
    wine = load_wine(as_frame=True)
    model = NRSClassifier(preset="fast", random_state=0).fit(wine.data, wine.target)
    figures = {
        "tree": explain.plot_tree(model, wine.data, wine.target)[0].figure,
        "forest": explain.plot_forest(model, wine.data, wine.target),
        "importance": explain.plot_importance(model).figure,
    }
    for name, figure in figures.items():
        figure.savefig(TARGET / f"{name}.png", dpi=110)


if __name__ == "__main__":
    main()
