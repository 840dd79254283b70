"""What an estimator adopts, of a fit or of a file; a forest of a file predicts without torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from nrs.engine import MAX_LAYERS, instructions
from nrs.tabular.forest.folded import Folded
from nrs.tabular.header import require
from nrs.training.schema import check_tensors

if TYPE_CHECKING:
    from torch import Tensor, nn

    from nrs.tabular.encode.encoder import TableEncoder
    from nrs.tabular.model import SingleModel
    from nrs.tabular.recipe import Recipe
    from nrs.tabular.targets import OutOfBag, Target
    from nrs.tabular.types import Json
    from nrs.training.files import ModelFile
    from nrs.training.history import History


@dataclass(frozen=True)
class Learned:
    """Everything that a fit has learned; an estimator adopts it in one step."""

    target: Target
    encoder: TableEncoder
    model: SingleModel | StoredForest
    predictor: nn.Module | Folded
    history: History
    importances: np.ndarray
    out_of_bag: OutOfBag | None = None


@dataclass(frozen=True)
class StoredForest:
    """The forest of a model file, whose network is made when someone asks for it."""

    file: ModelFile
    shape: Json
    target: Target
    recipe: Recipe

    @classmethod
    def of(
        cls, file: ModelFile, shape: Json, target: Target, recipe: Recipe
    ) -> StoredForest | None:
        """The forest of a file, if the compiled engine is there to apply it.

        Parameters
        ----------
        shape : what the file's header says of it, once that is known to be in order.

        Raises
        ------
        ModelFileError
            If the arrays of the file are not those of such a forest.
        """
        if instructions()[0] is None or len(recipe.hidden) >= MAX_LAYERS:
            return None
        check_tensors(forest_tensors(shape, recipe, target.n_outputs), file.arrays)
        check_forest(file.arrays, shape)
        return cls(file, shape, target, recipe)

    def header(self) -> Json:
        """As of :meth:`nrs.tabular.model.ForestModel.header`."""
        return {"forest": self.shape}

    def state(self) -> dict[str, np.ndarray]:
        """The state dict of the network, as arrays."""
        return self.file.arrays

    def predictor(self) -> Folded:
        """What predicts."""
        shape, combine = self.shape, self.target.combine
        return Folded.of(self.file.arrays, shape["in_features"], shape["n_levels"], combine)


def forest_tensors(shape: Json, recipe: Recipe, n_outputs: int) -> dict[str, str]:
    """Type and shape of every tensor in the state dict of a forest that a header describes."""
    members, subspaces, size = shape["index"]
    found: dict[str, str] = {}

    def known(dtype: str, *sizes: int, names: tuple[str, ...]) -> None:
        found.update(dict.fromkeys(names, f"{dtype} {list(sizes)}"))

    index = (members, subspaces, size)
    known("int64", *index, names=("index",))
    known("float32", members, names=("shares",))
    known("float32", names=("temperature",))
    known("float32", *index, names=("gain",))
    known("float32", members, subspaces, 1, size, names=("weight",))
    known("int64", shape["n_bins"], names=("bins.source",))
    known("float32", shape["n_bins"], names=("bins.low", "bins.rate"))
    widths = (subspaces, *recipe.hidden)
    norms = ("norm", *(f"hidden_norms.{number}" for number in range(len(recipe.hidden))))
    for name, width in zip(norms, widths, strict=True):
        leaves = ("weight", "bias", "running_mean", "running_var")
        known("float32", members * width, names=tuple(f"{name}.{leaf}" for leaf in leaves))
        known("int64", names=(f"{name}.num_batches_tracked",))
    for number, units in enumerate(recipe.hidden):
        known("float32", members, units, widths[number], names=(f"hidden.{number}",))
    known("float32", members, n_outputs, widths[-1], names=("out_weight",))
    known("float32", members, n_outputs, 1, names=("out_bias",))
    if recipe.monotone:
        known("float32", *index, names=("directions.inputs",))
        known("float32", members, subspaces, names=("directions.subspaces",))
        known("float32", members, n_outputs, names=("directions.outputs",))
        for number, units in enumerate(recipe.hidden):
            known("float32", members, units, names=(f"directions.hidden{number}",))
    return found


def check_forest(tensors: Mapping[str, np.ndarray | Tensor], shape: Json) -> None:
    """Raise ModelFileError if the tensors of a forest are none that training gives."""
    features = shape["in_features"]
    source, index, shares = (tensors[name] for name in ("bins.source", "index", "shares"))
    inside = ((source >= 0) & (source < features)).all()
    require(bool(inside), "the bins of a forest must be those of its features")
    inside = ((index >= 0) & (index < features + shape["n_bins"] + 1)).all()
    require(bool(inside), "the members of a forest must read inputs that it has")
    counted = (shares >= 0).all() and shares.sum() > 0
    require(bool(counted), "the shares of members must be at least 0, and not all 0")
    require(float(tensors["temperature"]) > 0, "the temperature must be above 0")
