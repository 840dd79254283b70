"""Every method of the comparison by the name it has in the paper's tables.

    >>> make("RF", task="classification", seed=0).n_estimators
    500

Settings are the paper's: 500 trees, and 100 in its table of speeds (``setting="speed"``), 100 and
50 for NDF; networks by its protocol (``preset="paper"``). What it chose by 5-fold
cross-validation is searched by `grid`. Classes are imported when one is made, so that a missing
package takes nothing but its own method away.
"""

from __future__ import annotations

import importlib
import importlib.util
from dataclasses import dataclass, field
from typing import Any, Literal

from sklearn.model_selection import GridSearchCV, KFold, StratifiedKFold

from nrs.baselines.boosting import BOOSTING, PEERS, THUNDER
from nrs.baselines.peers import MissingPeerError, PeerEstimator, import_peer

Task = Literal["classification", "regression"]
Setting = Literal["accuracy", "speed"]
TASKS = ("classification", "regression")
SETTINGS = ("accuracy", "speed")
# Folds that choose between MLP-2 and MLP-3: three where the paper has five, for time.
MLP_FOLDS = 3


@dataclass(frozen=True)
class Method:
    """One row of the registry.

    Parameters
    ----------
    description : one line.
    module, stem : its estimators are ``module.<stem>Classifier`` and ``module.<stem>Regressor``.
    settings, speed : arguments, and those that differ in the table of speeds.
    grid : what cross-validation searches.
    package, advice : what must be importable, and what to do if it is not.
    """

    description: str
    module: str
    stem: str
    settings: dict[str, Any] = field(default_factory=dict)
    speed: dict[str, Any] = field(default_factory=dict)
    grid: dict[str, list[Any]] = field(default_factory=dict)
    package: str | None = None
    advice: str = ""

    def estimator(self, task: Task) -> Any:
        """The class for a task."""
        kind = "Classifier" if task == "classification" else "Regressor"
        return getattr(importlib.import_module(self.module), self.stem + kind)


_NETWORK: dict[str, Any] = {"preset": "paper", "verbose": 0}
# The paper tunes on a validation part how long to train, within 20 to 50 epochs.
_EPOCHS: dict[str, list[Any]] = {"epochs": [20, 50]}
_FOREST: dict[str, list[Any]] = {"min_samples_leaf": [1, 3]}
_BOOSTED: dict[str, list[Any]] = {"learning_rate": [0.05, 0.2], "max_depth": [4, 8]}
_TREES: dict[str, Any] = {"n_estimators": 500}
_FEW_TREES: dict[str, Any] = {"n_estimators": 100}
_MLP = "nrs.baselines.mlp"
_BOOSTING = "nrs.baselines.boosting"

_METHODS: dict[str, Method] = {
    "NRS": Method(
        "Neural Random Subspace: the layer, then two fully connected ones",
        "nrs.tabular", "NRS", _NETWORK, grid=_EPOCHS,
    ),
    "MLP": Method(
        f"the better of MLP-2 and MLP-3 by {MLP_FOLDS}-fold cross-validation",
        _MLP, "MLP", _NETWORK, grid=_EPOCHS,
    ),
    "MLP-2": Method(
        "the network of NRS without the layer: two hidden layers",
        _MLP, "MLP", _NETWORK | {"n_layers": 2},
        grid=_EPOCHS | {"hidden": [(256,) * 2, (512,) * 2]},
    ),
    "MLP-3": Method(
        "the network of NRS without the layer: three hidden layers",
        _MLP, "MLP", _NETWORK | {"n_layers": 3},
        grid=_EPOCHS | {"hidden": [(256,) * 3, (512,) * 3]},
    ),
    "MLP-D": Method(
        "MLP-2 with input dropout, 80 % kept; the other reading is input_dropout='drop 80%'",
        _MLP, "MLP", _NETWORK | {"n_layers": 2, "input_dropout": "keep 80%"},
        grid=_EPOCHS | {"n_layers": [2, 3]},
    ),
    "NDF": Method(
        "deep neural decision forest: soft trees on linear features, leaves in closed form",
        "nrs.baselines.ndf", "NDF", _NETWORK | {"n_trees": 100}, {"n_trees": 50}, grid=_EPOCHS,
    ),
    "ANT": Method(
        "adaptive neural tree: transformers, routers and solvers, grown by validation loss",
        "nrs.baselines.ant", "ANT", _NETWORK,
    ),
    "RS": Method(
        "random-subspace forest: full trees, each on a random half of the features",
        "nrs.baselines.trees", "RandomSubspace", _TREES, _FEW_TREES,
        {"max_features": [0.3, 0.5, 0.7]},
    ),
    "RF": Method(
        "random forest of scikit-learn",
        "nrs.baselines.trees", "RandomForest", _TREES, _FEW_TREES, _FOREST,
    ),
    "GBDT": Method(
        "gradient-boosted trees of XGBoost",
        _BOOSTING, "GBDT", _TREES, _FEW_TREES, _BOOSTED, "xgboost", BOOSTING,
    ),
    "mGBDT": Method(
        "layers of boosted regression trees with inverses, by target propagation",
        "nrs.baselines.mgbdt", "MGBDT", package="xgboost", advice=BOOSTING,
    ),
    "LightGBM": Method(
        "gradient-boosted trees of LightGBM",
        _BOOSTING, "LightGBM", _TREES, _FEW_TREES, _BOOSTED, "lightgbm", BOOSTING,
    ),
    "CatBoost": Method(
        "gradient-boosted symmetric trees of CatBoost",
        _BOOSTING, "CatBoost", _TREES, _FEW_TREES, _BOOSTED, "catboost", PEERS,
    ),
    "ThunderGBM RF": Method(
        "random forest of ThunderGBM, on a GPU",
        _BOOSTING, "ThunderGBMForest", _TREES, _FEW_TREES, {"max_depth": [6, 10]},
        "thundergbm", THUNDER,
    ),
    "ThunderGBM GBDT": Method(
        "gradient-boosted trees of ThunderGBM, on a GPU",
        _BOOSTING, "ThunderGBM", _TREES, _FEW_TREES, _BOOSTED, "thundergbm", THUNDER,
    ),
    "TabM": Method(
        "TabM: an ensemble of MLPs that share most weights, at its defaults",
        "nrs.baselines.modern", "TabM", package="pytabkit", advice=PEERS,
    ),
    "RealMLP": Method(
        "RealMLP: an MLP with tuned defaults",
        "nrs.baselines.modern", "RealMLP", package="pytabkit", advice=PEERS,
    ),
}  # fmt: skip


def names() -> list[str]:
    """All methods, ours first, then the paper's peers, then today's.

    Examples
    --------
    >>> names()[:5]
    ['NRS', 'MLP', 'MLP-2', 'MLP-3', 'MLP-D']
    """
    return list(_METHODS)


def describe(name: str) -> str:
    """One line about a method.

    Examples
    --------
    >>> describe("RF")
    'random forest of scikit-learn'
    """
    return _method(name).description


def make(
    name: str,
    task: Task = "classification",
    seed: int = 0,
    *,
    setting: Setting = "accuracy",
    **overrides: Any,
) -> Any:
    """Make an unfitted estimator with the paper's settings.

    Parameters
    ----------
    name : one of :func:`names`.
    task : {"classification", "regression"}
    seed : its `random_state`.
    setting : {"accuracy", "speed"}
        The settings of the paper's table of accuracies, or of that of speeds.
    overrides : arguments of the estimator that replace these; of "MLP" also `cv`.

    Raises
    ------
    ValueError
        An unknown name, task or setting.

    Examples
    --------
    >>> make("RF", task="regression", seed=1, setting="speed").n_estimators
    100
    >>> make("NDF", preset="default", n_trees=None).preset
    'default'
    """
    method = _method(name)
    _check("task", task, TASKS)
    _check("setting", setting, SETTINGS)
    arguments = {**method.settings, **(method.speed if setting == "speed" else {})}
    if name != "MLP":
        return method.estimator(task)(**{**arguments, "random_state": seed, **overrides})
    folds = StratifiedKFold if task == "classification" else KFold
    cv = overrides.pop("cv", folds(MLP_FOLDS, shuffle=True, random_state=seed))
    network = method.estimator(task)(**{**arguments, "random_state": seed, **overrides})
    return GridSearchCV(network, {"n_layers": [2, 3]}, cv=cv, error_score="raise")


def grid(name: str, task: Task = "classification") -> dict[str, list[Any]]:
    """What the paper's 5-fold cross-validation searches, for scikit-learn's `GridSearchCV`.

    The paper tunes every method but names no grids; these are small ones around the usual
    values. Empty where a method chooses for itself or is taken at its defaults.

    Examples
    --------
    >>> grid("RF")
    {'min_samples_leaf': [1, 3]}
    """
    _check("task", task, TASKS)
    values = {key: list(choices) for key, choices in _method(name).grid.items()}
    if name == "RF" and task == "regression":
        values["max_features"] = [1 / 3, 1.0]
    if name == "MLP":
        return {f"estimator__{key}": choices for key, choices in values.items()}
    return values


def available(name: str) -> tuple[bool, str]:
    """Tell whether a method can run here, and if not, why and what to do, in one line.

    Examples
    --------
    >>> available("RF")
    (True, '')
    """
    method = _method(name)
    if method.package is None:
        return True, ""
    try:
        # Only a library that is known to load on some machines alone is loaded to find out.
        if method.package == "thundergbm":
            import_peer(method.package, method.advice)
        elif importlib.util.find_spec(method.package) is None:
            raise MissingPeerError(f"{method.package} is not installed; {method.advice}")
    except (MissingPeerError, ValueError) as error:
        return False, str(error)
    return True, ""


def model_size(estimator: Any) -> int:
    """Bytes of a fitted model: weights and buffers of a network, else as its package stores it.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> model = make("RF", n_estimators=2).fit(*load_iris(return_X_y=True))
    >>> model_size(model) > 1000
    True
    """
    if isinstance(estimator, GridSearchCV):
        return model_size(estimator.best_estimator_)
    if isinstance(estimator, PeerEstimator):
        return len(estimator.serialized())
    if not hasattr(estimator, "network_"):
        raise ValueError(
            f"model_size takes a fitted estimator of the registry; got {estimator!r}. Fit it first."
        )
    tensors = estimator.network_.state_dict().values()
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def _method(name: str) -> Method:
    if name not in _METHODS:
        raise ValueError(f"name must be one of {', '.join(_METHODS)}; got {name!r}")
    return _METHODS[name]


def _check(name: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ValueError(f"{name} must be one of {choices}; got {value!r}")
