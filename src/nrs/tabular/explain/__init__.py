"""Why a fitted model says what it says; public as ``nrs.explain``."""

from nrs.tabular.explain.trees import Tree, Trees, read_trees

__all__ = ["Tree", "Trees", "read_trees"]
