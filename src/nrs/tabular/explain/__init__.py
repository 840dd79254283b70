"""Why a fitted model says what it says; public as ``nrs.explain``."""

from nrs.tabular.explain.attribution import Attribution, attribute
from nrs.tabular.explain.plots import plot_forest, plot_importance, plot_tree
from nrs.tabular.explain.shapley import CodedRows, shap_values
from nrs.tabular.explain.trees import (
    Interaction,
    Tree,
    Trees,
    interaction_matrix,
    interactions,
    read_trees,
)  # fmt: skip

__all__ = [
    "Attribution", "CodedRows", "Interaction", "Tree", "Trees", "attribute", "interaction_matrix",
    "interactions", "plot_forest", "plot_importance", "plot_tree", "read_trees", "shap_values",
]  # fmt: skip
