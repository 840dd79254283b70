"""mGBDT: layers of boosted regression trees, trained by target propagation (Feng et al., 2018).

Trees have no gradient for the layer below them. Each layer therefore has an inverse of its own,
trees too, which carries the target of its output down to one of its input; every layer is boosted
a few rounds towards its target, epoch by epoch. The last layer is linear, as in the authors'
experiments on small tables, and takes a step of gradient descent. The paper discusses mGBDT and
does not compare with it.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from nrs.baselines.boosting import BOOSTING
from nrs.baselines.peers import (
    PeerEstimator,
    PeerRegressor,
    ProbabilityPeerClassifier,
    UnweightedPeer,
    import_peer,
)
from nrs.tabular.parameters import parameters


class BoostedMap:
    """A map from vectors to vectors that is boosted towards whatever it is shown.

    Parameters
    ----------
    learning_rate, max_depth : of a tree; each number of the output has its own.
    rounds : trees for each number in one step.
    """

    def __init__(
        self, learning_rate: float, max_depth: int, rounds: int, seed: int, n_jobs: int | None
    ) -> None:
        self.settings = {
            "objective": "reg:squarederror", "tree_method": "hist", "eta": learning_rate,
            "max_depth": max_depth, "seed": seed, "nthread": n_jobs or 1,
        }  # fmt: skip
        self.rounds = rounds
        self.booster: Any = None

    def boost(self, x: np.ndarray, target: np.ndarray) -> None:
        """Add trees that move the outputs for x, by squared error, towards their targets."""
        xgboost = import_peer("xgboost", BOOSTING)
        data = xgboost.DMatrix(x, label=np.zeros_like(target), nthread=self.settings["nthread"])
        if self.booster is None:
            self.booster = xgboost.Booster(self.settings, [data])
        begin = self.booster.num_boosted_rounds()
        for number in range(begin, begin + self.rounds):
            gradient = self._outputs(data, target.shape) - target
            self.booster.boost(data, number, grad=gradient, hess=np.ones_like(gradient))

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """The outputs: (rows, numbers)."""
        xgboost = import_peer("xgboost", BOOSTING)
        outputs = self.booster.predict(xgboost.DMatrix(x, nthread=self.settings["nthread"]))
        return np.asarray(outputs, np.float64).reshape(len(x), -1)

    def _outputs(self, data: Any, shape: tuple[int, ...]) -> np.ndarray:
        if not self.booster.num_boosted_rounds():
            return np.zeros(shape)
        return np.asarray(self.booster.predict(data), np.float64).reshape(shape)


class LinearMap:
    """The last layer: scores of classes by softmax, or one number by squared error.

    Parameters
    ----------
    classes : whether the outputs are scores of classes.
    """

    def __init__(self, n_in: int, n_out: int, rate: float, classes: bool, seed: int) -> None:
        generator = np.random.default_rng(seed)
        reach = n_in**-0.5
        self.weight = generator.uniform(-reach, reach, (n_in, n_out))
        self.bias = generator.uniform(-reach, reach, n_out)
        self.rate, self.classes = rate, classes

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """Probabilities of the classes, or the number: (rows, outputs)."""
        scores = x @ self.weight + self.bias
        if not self.classes:
            return scores
        powers = np.exp(scores - scores.max(1, keepdims=True))
        return powers / powers.sum(1, keepdims=True)

    def slope(self, x: np.ndarray, wanted: np.ndarray) -> np.ndarray:
        """Gradient of each row's loss by its x."""
        return (self(x) - wanted) @ self.weight.T

    def step(self, x: np.ndarray, wanted: np.ndarray) -> None:
        """One step of gradient descent on the mean loss."""
        error = (self(x) - wanted) / len(x)
        self.weight -= self.rate * (x.T @ error)
        self.bias -= self.rate * error.sum(0)


class LayeredTrees:
    """Layers of boosted trees under a linear one, for `n_classes` classes or, with None, a number.

    Attributes
    ----------
    layers : the forward maps of trees, from the features up.
    inverses : of every one but the first, from its outputs to its inputs.
    last : the linear map.
    """

    def __init__(
        self,
        n_classes: int | None,
        hidden: tuple[int, ...],
        epochs: int,
        target_rate: float,
        noise: float,
        **tree: Any,
    ) -> None:
        self.n_classes, self.epochs, self.hidden = n_classes, epochs, hidden
        self.target_rate, self.noise, self.seed = target_rate, noise, int(tree["seed"])
        self.layers = [BoostedMap(**tree) for _ in hidden]
        self.inverses = [BoostedMap(**tree) for _ in hidden[1:]]
        self.last = LinearMap(
            hidden[-1], n_classes or 1, tree["learning_rate"], n_classes is not None, self.seed
        )

    def fit(self, X: Any, y: np.ndarray) -> Self:
        """Train on a matrix and labels counted from 0, or numbers."""
        generator = np.random.default_rng(self.seed)
        X = np.asarray(X, np.float64)
        wanted = self._wanted(y)
        # Trees have no random start: tiny ones that are fitted to noise take its place.
        outputs = [X]
        for layer, width in zip(self.layers, self.hidden, strict=True):
            layer.boost(outputs[-1], generator.normal(size=(len(X), width)))
            outputs.append(layer(outputs[-1]))
        for _ in range(self.epochs):
            targets = self.targets(outputs, wanted, generator)
            outputs = [X]
            for layer, target in zip(self.layers, targets, strict=True):
                layer.boost(outputs[-1], target)
                outputs.append(layer(outputs[-1]))
            self.last.step(outputs[-1], wanted)
        return self

    def targets(
        self, outputs: list[np.ndarray], wanted: np.ndarray, generator: np.random.Generator
    ) -> list[np.ndarray]:
        """What the output of each layer of trees should be, from the last down to the first."""
        top = outputs[-1]
        found = [top - self.target_rate * self.last.slope(top, wanted)]
        for place in range(len(self.layers) - 1, 0, -1):
            below, inverse = outputs[place], self.inverses[place - 1]
            shaken = below + self.noise * generator.normal(size=below.shape)
            inverse.boost(self.layers[place](shaken), shaken)
            found.insert(0, inverse(found[0]))
        return found

    def _wanted(self, y: np.ndarray) -> np.ndarray:
        if self.n_classes is not None:
            return np.eye(self.n_classes)[y]
        self.mean, self.std = float(y.mean()), float(y.std()) or 1.0
        return ((y - self.mean) / self.std).reshape(-1, 1)

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities of the classes: (rows, n_classes)."""
        outputs = np.asarray(X, np.float64)
        for layer in self.layers:
            outputs = layer(outputs)
        return self.last(outputs)

    def predict(self, X: Any) -> np.ndarray:
        """Numbers: (rows,)."""
        return self.predict_proba(X)[:, 0] * self.std + self.mean


@parameters
class _MGBDT(UnweightedPeer, PeerEstimator):
    hidden: tuple[int, ...] = (16, 16)
    epochs: int = 50
    learning_rate: float = 0.1
    max_depth: int = 5
    rounds: int = 5
    target_rate: float = 1.0
    noise: float = 0.3

    _takes_sparse = False

    def _make_peer(self, n_classes: int | None, seed: int) -> Any:
        import_peer("xgboost", BOOSTING)
        return LayeredTrees(
            n_classes, tuple(self.hidden), self.epochs, self.target_rate, self.noise,
            learning_rate=self.learning_rate, max_depth=self.max_depth, rounds=self.rounds,
            seed=seed % 2**31, n_jobs=self.n_jobs,
        )  # fmt: skip


class MGBDTClassifier(_MGBDT, ProbabilityPeerClassifier):
    """mGBDT: a network whose layers are boosted trees, on raw tables.

    Parameters
    ----------
    hidden : tuple of int
        Numbers that each hidden layer gives; the authors' (16, 16) for small tables.
    epochs : int
        How often all layers are boosted.
    learning_rate : float
        Of a tree, and of the last layer.
    max_depth : int
        Of a tree.
    rounds : int
        Rounds of boosting for each layer and each inverse in an epoch.
    target_rate : float
        How far along the gradient the target of the last layer of trees lies.
    noise : float
        Standard deviation of what is added to the inputs that inverses learn from.
    categorical_features, random_state
        As of :class:`nrs.NRSClassifier`.
    n_jobs : int
        Threads.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> MGBDTClassifier(epochs=10, random_state=0).fit(X, y).score(X, y) > 0.9
    True
    """


class MGBDTRegressor(_MGBDT, PeerRegressor):
    """mGBDT for one number, by squared error; parameters as of :class:`MGBDTClassifier`."""
