"""Why a fitted model says what it says; public as ``nrs.explain``."""

from nrs.tabular.explain.attribution import Attribution, attribute
from nrs.tabular.explain.effects import Effect, effect
from nrs.tabular.explain.permutation import Permutation, permutation
from nrs.tabular.explain.plots import plot_effect, plot_forest, plot_importance, plot_tree
from nrs.tabular.explain.reasons import Reasons, reasons
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
    "Attribution", "CodedRows", "Effect", "Interaction", "Permutation", "Reasons", "Tree", "Trees",
    "attribute", "effect", "interaction_matrix", "interactions", "permutation", "plot_effect",
    "plot_forest", "plot_importance", "plot_tree", "read_trees", "reasons", "shap_values",
]  # fmt: skip
