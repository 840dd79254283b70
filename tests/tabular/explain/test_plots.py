"""Plots of trees and importances."""

import pytest

from nrs import NRSClassifier, explain
from tests.tabular.mixed import mixed_table


def test_pictures():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    X, y = mixed_table(150)
    model = NRSClassifier(preset="fast", epochs=5, random_state=0, verbose=0).fit(X, y)
    ax = explain.plot_importance(model, n=4)
    assert len(ax.patches) == 4
    left, right = explain.plot_tree(model, X, y, tree=2)
    assert right.get_legend() is not None
    assert len(left.get_yticklabels()) == len(model.trees(3)[2].columns)
    figure = explain.plot_forest(model, X, y, n=5)
    assert sum(axes.axison for axes in figure.axes) == 5
    with pytest.raises(ValueError, match=r"tree must be from 0 to .*; got 1000000"):
        explain.plot_tree(model, X, tree=10**6)
    kinds = dict(zip(model.encoder_.column_names, model.encoder_.kinds_, strict=True))
    for column, kind in kinds.items():
        if kind != "text":
            ax = explain.plot_effect(explain.effect(model, X, column))
            assert ax.get_xlabel() == column
            assert ax.get_ylabel().startswith("probability of ")
    plt.close("all")
