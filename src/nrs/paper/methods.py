"""The methods of the vector-data tables as unfitted estimators."""

from __future__ import annotations

import copy
import itertools
from typing import Any, Literal

from torch import nn

from nrs._util.seeds import seeded
from nrs.baselines import available, grid, make
from nrs.core import NRS, FullyConnectedExpansion
from nrs.paper.table import NotHereError
from nrs.paper.trial import device
from nrs.tabular import NRSClassifier, NRSRegressor, TableNetwork
from nrs.tabular.encode.encoder import TableEncoder
from nrs.tabular.model import SingleModel
from nrs.tabular.recipe import Recipe
from nrs.tabular.targets import Target

Task = Literal["classification", "regression"]
Size = Literal["accuracy", "speed"]

# Rows of the ablation: whether the expansion starts sparse, and whether it is frozen.
SCHEMES = {"a": (False, False), "b": (True, False), "c": (False, True), "d": (True, True)}
# The two widths in the authors' configurations.
WIDTHS = (256, 512)
# Marks NRS or a scheme of the ablation whose head and batch are searched too. The paper has two
# fully connected layers "in all datasets", so these stand beside it and are not compared.
SEARCHED = " searched head"
# How long these are trained is chosen on a held-out part of the training rows.
NETWORKS = (
    "NRS", "NRS searched head", "MLP", "MLP-2", "MLP-3", "MLP-D", "MLP-D drop 80%", "NDF-paper",
)  # fmt: skip


class TwoLayerNRSClassifier(NRSClassifier):
    """NRS with two grouped 3×3 convolutions on 5×5 cells, as in the study of depth."""

    def _chosen(self) -> dict[str, Any]:
        return super()._chosen() | {"depth": 2, "n_h": 5}


class ExpansionModel(SingleModel):
    """A network whose permutations are a fully connected layer."""

    scheme = "d"

    @classmethod
    def make_network(
        cls, encoder: TableEncoder, target: Target, recipe: Recipe, seed: int
    ) -> nn.Module:
        network = super().make_network(encoder, target, recipe, seed)
        assert isinstance(network, TableNetwork)
        sparse_init, frozen = SCHEMES[cls.scheme]
        for position, layer in enumerate(network.layers):
            if isinstance(layer, NRS):
                with seeded(seed):
                    network.layers[position] = FullyConnectedExpansion(
                        layer.in_features, recipe.n_mul, recipe.n_per, recipe.n_h,
                        layout=recipe.layout, sparse_init=sparse_init, frozen=frozen, seed=seed,
                    )  # fmt: skip
        return network

    def folded(self) -> nn.Module:
        # The stand-in has no folded form.
        return copy.deepcopy(self.network).eval().requires_grad_(False)


_MODELS = {
    letter: type("ExpansionModel", (ExpansionModel,), {"scheme": letter}) for letter in "abc"
} | {"d": ExpansionModel}


class ExpansionClassifier(NRSClassifier):
    """NRS whose permutations are a fully connected layer (paper, Section "Ablation Study")."""

    scheme = "d"

    def model_type(self, recipe: Recipe) -> type[SingleModel]:
        if recipe.members:
            raise ValueError(f"the ablation has no forest; use preset='paper', not {self.preset!r}")
        return _MODELS[self.scheme]


def _scheme(letter: str) -> type[ExpansionClassifier]:
    return type(f"Expansion{letter.upper()}Classifier", (ExpansionClassifier,), {"scheme": letter})


_EXPANSIONS = {f"scheme {letter}": _scheme(letter) for letter in SCHEMES}


def estimator(method: str, task: Task, seed: int, size: Size, settings: dict[str, Any]) -> Any:
    """Make an unfitted estimator of one thread.

    Parameters
    ----------
    method : a name of `nrs.baselines.names`, or ``"scheme a"`` … ``"scheme d"``, ``"MLP-D drop
        80%"``, ``"NDF-paper"``; NRS and the schemes also with ``" searched head"`` after them.
    settings : arguments that replace the usual ones; ``depth=2`` takes the deeper NRS.

    Raises
    ------
    NotHereError
        If the method's package is not installed.

    Examples
    --------
    >>> estimator("NRS", "classification", 0, "accuracy", {"n_mul": 100}).preset
    'paper'
    """
    # The table of speeds has the seconds of one core.
    where = "cpu" if size == "speed" else device()
    ours: dict[str, Any] = {
        "preset": "paper", "random_state": seed, "verbose": 0, "n_jobs": 1, "device": where,
    }  # fmt: skip
    settings = {**settings}
    method = method.removesuffix(SEARCHED)
    if method in _EXPANSIONS:
        return _EXPANSIONS[method](**ours, **settings)
    if method == "NRS":
        depth = settings.pop("depth", 1)
        kinds = {1: NRSClassifier, 2: TwoLayerNRSClassifier}
        kind = kinds[depth] if task == "classification" else NRSRegressor
        return kind(**ours, **settings)
    name, own = _registered(method)
    possible, reason = available(name)
    if not possible:
        raise NotHereError(f"{method} cannot run here: {reason}")
    if method in NETWORKS or name in ("NDF", "ANT"):
        own = {"device": where, **own}
    return make(name, task=task, seed=seed, setting=size, **{**own, **settings})


def candidates(method: str, task: Task) -> list[dict[str, Any]]:
    """The settings among which cross-validation chooses; epochs are chosen apart from them.

    Examples
    --------
    >>> candidates("NRS", "classification")
    [{'hidden': [256, 256]}, {'hidden': [512, 512]}]
    """
    searched = searched_as(method)
    if searched == "NRS":
        return _widths(2)
    if searched == f"NRS{SEARCHED}":
        # The authors' code has a switch that leaves out the layers between NRS and the last. Their
        # batches of 128 are few steps on a small set, so a quarter of that is tried too.
        heads = [{"hidden": []}, *_widths(2)]
        return [head | {"batch_size": size} for head in heads for size in (128, 32)]
    if method == "MLP":
        return _widths(2) + _widths(3)
    if method in ("NDF", "NDF-paper"):
        return [{}]
    name, own = _registered(method)
    values = {key: entries for key, entries in grid(name, task).items() if key not in own}
    if method in NETWORKS:
        values.pop("epochs", None)
    return [
        dict(zip(values, chosen, strict=True)) for chosen in itertools.product(*values.values())
    ]


def _widths(n_layers: int) -> list[dict[str, Any]]:
    return [{"hidden": [width] * n_layers} for width in WIDTHS]


def searched_as(method: str) -> str:
    """The method whose search decides a method's settings: the ablation trains as NRS does.

    >>> searched_as("scheme a"), searched_as("scheme a searched head")
    ('NRS', 'NRS searched head')
    """
    plain = method.removesuffix(SEARCHED)
    return method.replace(plain, "NRS") if plain in _EXPANSIONS else method


def is_nrs(method: str) -> bool:
    """Whether a method is NRS or a scheme of its ablation, with whatever head.

    >>> is_nrs("NRS searched head"), is_nrs("MLP")
    (True, False)
    """
    return searched_as(method).removesuffix(SEARCHED) == "NRS"


def _registered(method: str) -> tuple[str, dict[str, Any]]:
    """The registry's name of a method, and what differs from its settings there."""
    if method == "MLP":
        return "MLP-2", {}
    if method == "MLP-D drop 80%":
        return "MLP-D", {"input_dropout": "drop 80%"}
    if method == "NDF":
        # The paper's 100 trees of depth 10 take hours on a core where these take minutes.
        return "NDF", {"preset": "default", "n_trees": None}
    if method == "NDF-paper":
        return "NDF", {}
    return method, {}
