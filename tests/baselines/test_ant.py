"""Adaptive neural trees: the mixture, growth by held-out loss, estimators and files."""

import json
import math

import matplotlib
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_iris, make_classification, make_friedman1
from sklearn.linear_model import LogisticRegression

from nrs.baselines.ant import ANTClassifier, ANTRegressor
from nrs.baselines.ant_growth import Graft, GrowthSettings, at_leaf, grow
from nrs.baselines.ant_recipe import resolve
from nrs.baselines.ant_tree import AdaptiveTree, Node, read_structure
from nrs.tabular import NRSClassifier
from nrs.tabular.rows.memory import Rows
from nrs.tabular.targets import ClassTarget, MultilabelTarget
from nrs.training import ModelFileError, TrainSettings
from tests.baselines.handful import handful

matplotlib.use("Agg")

TINY = {"width": 8, "router_width": 4, "max_nodes": 3, "max_depth": 2} | {
    "grow_epochs": 3,
    "epochs": 4,
}


def random_tree(actions: list[tuple[int, bool]], kind: str = "classes", seed: int = 0):
    """A tree grown at random: at the given leaf (modulo their number), split or deepen."""
    torch.manual_seed(seed)
    tree = AdaptiveTree(5, 3, kind=kind, width=6, router_width=4)
    for choice, splits in actions:
        leaf = tree.leaves[choice % len(tree.leaves)]
        Graft(tree, leaf, "split" if splits else "deepen").apply_to(tree, leaf)
    for solver in tree.solvers.values():
        solver.reset_parameters()
    # Sharp routers, so that some leaves are almost never reached.
    for router in tree.routers.values():
        router[-1].weight.data *= 30
    return tree.eval()


trees = st.lists(st.tuples(st.integers(0, 20), st.booleans()), max_size=8)


def reference(tree: AdaptiveTree, row: torch.Tensor) -> torch.Tensor:
    """Probabilities of the classes for one row, by recursion in float64."""

    def visit(number: int, features: torch.Tensor) -> torch.Tensor:
        features = tree.edges[number](features)
        node = tree.nodes[number]
        if node.children is None:
            scores = tree.solvers[str(number)](features)
            return scores.exp() / scores.exp().sum() if tree.kind == "classes" else scores
        left = 1 / (1 + torch.exp(-tree.routers[str(number)](features)))
        below = [visit(child, features) for child in node.children]
        return left * below[0] + (1 - left) * below[1]

    return visit(0, row[None])[0]


class TestTree:
    @given(trees, st.integers(0, 99))
    def test_leaf_probabilities_sum_to_one(self, actions, seed):
        tree = random_tree(actions, seed=seed)
        x = 10 * torch.randn(7, 5)
        reach = tree.leaf_log_reach(x)
        assert reach.shape == (7, len(tree.leaves))
        assert torch.allclose(reach.exp().sum(1), torch.ones(7), atol=1e-5)
        assert torch.allclose(tree(x).exp().sum(1), torch.ones(7), atol=1e-5)

    @given(trees, st.integers(0, 99), st.sampled_from(["classes", "regression"]))
    def test_equals_a_slow_reference(self, actions, seed, kind):
        tree = random_tree(actions, kind, seed).double()
        x = torch.randn(4, 5, dtype=torch.float64)
        outputs = tree(x).exp() if kind == "classes" else tree(x)
        slow = torch.stack([reference(tree, row) for row in x])
        assert torch.allclose(outputs, slow, atol=1e-10)

    def test_likelihood_is_that_of_the_mixture(self):
        tree = random_tree([(0, False), (0, True), (1, True)]).double()
        x, y = torch.randn(6, 5, dtype=torch.float64), torch.tensor([0, 1, 2, 2, 1, 0])
        slow = [-reference(tree, row)[label].log() for row, label in zip(x, y, strict=True)]
        loss = ClassTarget(np.arange(3)).loss(tree(x), y, None)
        assert torch.allclose(loss, torch.stack(slow).mean())

    def test_label_odds_are_those_of_the_mixed_probabilities(self):
        tree = random_tree([(0, True), (0, True)], "multilabel").double()
        x = torch.randn(6, 5, dtype=torch.float64)
        slow = torch.zeros(6, 3, dtype=torch.float64)
        for number, features, reach in tree.walk(x):
            if number in tree.leaves:
                slow += reach.exp() * tree.solvers[str(number)](features).sigmoid()
        assert torch.allclose(tree(x).sigmoid(), slow)

    @given(trees)
    def test_shape_survives_json(self, actions):
        tree = random_tree(actions)
        nodes = read_structure(json.loads(json.dumps(tree.structure())))
        assert nodes == tree.nodes
        copy = AdaptiveTree(5, 3, kind="classes", width=6, router_width=4, nodes=nodes).eval()
        copy.load_state_dict(tree.state_dict())
        x = torch.randn(9, 5)
        assert torch.equal(copy(x), tree(x))
        assert (copy.depth, copy.leaves) == (tree.depth, tree.leaves)

    def test_depth_counts_transformers_and_routers(self):
        tree = random_tree([(0, False), (0, False), (0, True)])
        assert [tree.depth_at(number) for number in range(3)] == [2, 3, 3]
        assert [tree.width_at(number) for number in range(3)] == [6, 6, 6]
        assert AdaptiveTree(5, 3, kind="classes", nodes=[Node()]).depth == 0

    def test_extreme_scores_stay_finite(self):
        tree = random_tree([(0, True), (0, True)])
        x = torch.full((3, 5), 1e6, requires_grad=True)
        loss = ClassTarget(np.arange(3)).loss(tree(x), torch.tensor([0, 1, 2]), None)
        loss.backward()
        assert loss.isfinite()
        assert all(p.grad is None or p.grad.isfinite().all() for p in tree.parameters())

    def test_unknown_kind(self):
        with pytest.raises(ValueError, match="got 'ranks'"):
            AdaptiveTree(5, 3, kind="ranks")


def rows_of(x: np.ndarray, y: np.ndarray) -> Rows:
    return Rows(x.astype(np.float32), y)


class TestGrowth:
    @given(trees, st.integers(0, 20), st.sampled_from(["keep", "deepen", "split"]),
           st.sampled_from(["classes", "multilabel", "regression"]))  # fmt: skip
    def test_a_graft_predicts_what_the_tree_then_does(self, actions, choice, action, kind):
        tree = random_tree(actions, kind)
        leaf = tree.leaves[choice % len(tree.leaves)]
        x = torch.randn(8, 5)
        graft = Graft(tree, leaf, action).eval()
        before = graft(tree.at_leaf(x, leaf))
        graft.apply_to(tree, leaf)
        assert torch.allclose(before, tree.eval()(x), atol=1e-5)

    def grown(self, y, *, max_nodes=7, max_depth=4, seed=0):
        generator = np.random.default_rng(seed)
        x = generator.uniform(-1, 1, (600, 2))
        labels = y(x, generator)
        target = ClassTarget(np.arange(2))
        training = TrainSettings(epochs=12, lr=1e-2, optimizer="adam", patience=5)
        settings = GrowthSettings(max_depth, max_nodes, 64, training)
        torch.manual_seed(seed)
        tree = AdaptiveTree(2, 2, kind="classes", width=8, router_width=4)
        held_out = rows_of(x[400:], labels[400:])
        visits = grow(tree, rows_of(x[:400], labels[:400]), held_out, target, settings,
                      torch.Generator().manual_seed(seed))  # fmt: skip
        with torch.no_grad():
            loss = target.loss(tree(held_out.features), held_out.targets, None)
        return tree, visits, float(loss)

    def test_grows_only_when_the_held_out_loss_falls(self):
        tree, visits, loss = self.grown(lambda x, _: (x[:, 0] * x[:, 1] > 0).astype(np.int64))
        done = [visit[visit["action"]] for visit in visits]
        assert any(visit["action"] != "keep" for visit in visits)
        for visit, after in zip(visits, done, strict=True):
            tried = [visit[name] for name in ("deepen", "split") if visit[name] is not None]
            assert after == min([visit["keep"], *tried])
            assert (visit["action"] == "keep") == (after == visit["keep"])
        assert [visit["keep"] for visit in visits[1:]] == done[:-1]
        assert loss == pytest.approx(done[-1], abs=1e-5)
        assert loss < 0.3 < visits[0]["keep"]
        assert len(tree.nodes) == 1 + 2 * sum(visit["action"] == "split" for visit in visits)

    @pytest.mark.parametrize("loss", [0.5, 0.6, math.nan, math.inf])
    def test_stays_a_leaf_without_a_gain(self, loss, monkeypatch):
        losses = iter([0.5, loss, loss])
        monkeypatch.setattr("nrs.baselines.ant_growth._train", lambda *_: next(losses))
        tree, visits, _ = self.grown(lambda x, _: (x[:, 0] > 0).astype(np.int64))
        assert [visit["action"] for visit in visits] == ["keep"]
        assert tree.depth == 0

    def test_leaves_are_visited_breadth_first(self, monkeypatch):
        # The root's solver, then deepen and split at every visit.
        losses = iter([0.9, 0.9, 0.8, 0.7, 0.8, 0.9, 0.6, 0.9, 0.9, *[0.9] * 20])
        monkeypatch.setattr("nrs.baselines.ant_growth._train", lambda *_: next(losses))
        _, visits, _ = self.grown(lambda x, _: (x[:, 0] > 0).astype(np.int64))
        found = [(visit["node"], visit["action"]) for visit in visits]
        assert found[:3] == [(0, "split"), (1, "deepen"), (2, "split")]
        assert found[3:] == [(1, "keep"), (3, "keep"), (4, "keep")]

    def test_a_nan_does_not_hide_a_gain(self, monkeypatch):
        losses = iter([0.9, math.nan, 0.5, *[0.9] * 20])
        monkeypatch.setattr("nrs.baselines.ant_growth._train", lambda *_: next(losses))
        _, visits, _ = self.grown(lambda x, _: (x[:, 0] > 0).astype(np.int64))
        assert visits[0]["action"] == "split"

    def test_limits_hold(self):
        def product(x, _):
            return (np.sin(5 * x[:, 0]) * x[:, 1] > 0).astype(np.int64)

        tree, visits, _ = self.grown(product, max_nodes=1, max_depth=2)
        assert len(tree.nodes) == 1
        assert all(visit["split"] is None for visit in visits)
        tree, visits, _ = self.grown(product, max_depth=0)
        assert (tree.depth, len(visits)) == (0, 1)
        tree, _, _ = self.grown(product, max_nodes=4, max_depth=9)
        assert len(tree.nodes) <= 3

    def test_a_split_begins_as_the_leaf_it_replaces(self):
        tree = random_tree([(0, False), (0, True)])
        x = torch.randn(8, 5)
        split = Graft(tree, 2, "split").eval()
        assert torch.allclose(split(tree.at_leaf(x, 2)), tree(x), atol=1e-6)

    def test_what_a_leaf_sees_is_computed_once(self):
        tree = random_tree([(0, True)])
        x = np.random.default_rng(0).normal(size=(10, 5))
        cached = at_leaf(tree, Rows(x.astype(np.float32), np.zeros(10, np.int64),
                                    np.ones(10, np.float32), np.arange(1, 9)), 1)  # fmt: skip
        assert cached.features.shape == (8, 5 + 1 + 3)
        assert len(cached.weights) == len(cached) == 8


class TestEstimators:
    @pytest.mark.parametrize(
        ("estimator", "check"),
        handful(ANTClassifier(**TINY, verbose=0), ANTRegressor(**TINY, verbose=0)),
    )
    def test_sklearn(self, estimator, check):
        # Scores that some checks want need more than the tiny setting's few steps.
        estimator.set_params(lr=0.02)
        check(estimator)

    def test_beats_a_linear_model(self):
        X, y = make_classification(
            1500, 8, n_informative=4, n_redundant=0, n_clusters_per_class=4, random_state=0
        )
        model = ANTClassifier(width=32, grow_epochs=10, epochs=10, max_depth=3, random_state=0)
        model.fit(X[:1000], y[:1000])
        linear = LogisticRegression().fit(X[:1000], y[:1000])
        assert model.score(X[1000:], y[1000:]) > linear.score(X[1000:], y[1000:]) + 0.05

    def test_regression_of_several_outputs(self):
        X, y = make_friedman1(800, random_state=0)
        both = np.stack([y, 100 - 3 * y], 1)
        model = ANTRegressor(
            width=32, grow_epochs=8, epochs=20, max_depth=3, lr=5e-3, batch_size=64, random_state=0
        )
        model.fit(X[:600], both[:600])
        assert model.predict(X[600:]).shape == (200, 2)
        assert model.score(X[600:], both[600:]) > 0.85

    def test_refinement_never_leaves_a_worse_tree(self):
        X, y = load_iris(return_X_y=True)
        held_out = (X[::2], y[::2])
        model = ANTClassifier(**TINY, lr=0.5, metric="log_loss", random_state=0)
        model.fit(X[1::2], y[1::2], eval_set=held_out)
        last = model.growth_[-1]
        probability = model.predict_proba(X[::2])[np.arange(75), y[::2]]
        assert -np.log(probability).mean() <= last[last["action"]] + 1e-5

    def test_several_labels(self):
        X, _ = load_iris(return_X_y=True)
        y = np.stack([X[:, 0] > 5.8, X[:, 2] > 4], 1).astype(int)
        model = ANTClassifier(**TINY, lr=0.02, random_state=0).fit(X, y)
        assert isinstance(model.target_, MultilabelTarget)
        assert (model.predict(X) == y).mean() > 0.85
        assert model.predict_proba(X).shape == (150, 2)

    def test_leaf_probabilities(self):
        X, y = load_iris(return_X_y=True)
        model = fitted_with_a_split(X, y)
        reach = model.leaf_probabilities(X)
        assert reach.shape == (150, len(model.tree_.leaves))
        assert np.allclose(reach.sum(1), 1)
        leaves = [node for node in model.nodes_ if node["kind"] == "solver"]
        assert sum(node["reach"] for node in leaves) == pytest.approx(1)
        assert all(sum(node["value"]) == pytest.approx(1) for node in leaves)

    def test_same_seed_same_bits(self):
        X, y = load_iris(return_X_y=True)
        torch.manual_seed(1)
        first = ANTClassifier(**TINY, random_state=3).fit(X, y)
        untouched = torch.random.get_rng_state()
        torch.manual_seed(2)
        second = ANTClassifier(**TINY, random_state=3).fit(X, y)
        assert first.growth_ == second.growth_
        assert np.array_equal(first.predict_proba(X), second.predict_proba(X))
        torch.manual_seed(1)
        assert torch.equal(untouched, torch.random.get_rng_state())

    @pytest.mark.parametrize(
        ("X", "y"),
        [
            (np.zeros((30, 3)), np.arange(30) % 2),
            (np.random.default_rng(0).normal(size=(30, 3)), np.zeros(30, int)),
            (1e30 * np.random.default_rng(0).normal(size=(30, 3)), np.arange(30) % 3),
            (np.full((30, 2), np.nan), np.arange(30) % 2),
            (np.arange(4.0)[:, None], np.array([0, 1, 0, 1])),
        ],
        ids=["constant", "one class", "huge", "missing", "four rows"],
    )
    def test_degenerate_tables_give_finite_numbers(self, X, y):
        model = ANTClassifier(**TINY, random_state=0).fit(X, y)
        assert np.isfinite(model.predict_proba(X)).all()
        assert all(math.isfinite(row["keep"]) for row in model.growth_)
        assert np.isfinite(ANTRegressor(**TINY, random_state=0).fit(X, y * 1e6).predict(X)).all()

    def test_bad_settings_say_what_came(self):
        for name, value in [("width", 0), ("max_nodes", 0), ("epochs", 1.5), ("scale", "log"),
                            ("validation_fraction", 1.0)]:  # fmt: skip
            with pytest.raises(ValueError, match=name):
                resolve("default", {name: value}, rows=100)
        with pytest.raises(ValueError, match="got 'fast'"):
            resolve("fast", {}, rows=100)

    def test_presets(self):
        paper = resolve("paper", {}, rows=10_000)
        assert (paper.lr, paper.grow_epochs, paper.patience, paper.epochs) == (1e-3, 50, 5, 100)
        assert resolve("default", {}, rows=10_000).max_nodes < paper.max_nodes
        assert resolve("default", {}, rows=10).validation_fraction == 0

    def test_has_no_passes_and_nothing_before_a_fit(self):
        assert not hasattr(ANTClassifier(), "partial_fit")
        assert not hasattr(ANTRegressor(), "tree_")


def fitted_with_a_split(X, y, kind=ANTClassifier):
    """A model whose tree has routers: transformers of one unit leave no better choice."""
    model = kind(width=1, batch_norm=False, max_nodes=7, max_depth=3, grow_epochs=10, epochs=4,
                 lr=0.05, random_state=0).fit(X, y)  # fmt: skip
    assert any(row["action"] == "split" for row in model.growth_)
    return model


class TestFilesAndPictures:
    def test_a_saved_tree_predicts_the_same_bits(self, tmp_path):
        X, y = load_iris(return_X_y=True, as_frame=True)
        model = fitted_with_a_split(X, y)
        model.save(tmp_path / "tree.safetensors")
        loaded = ANTClassifier.load(tmp_path / "tree.safetensors")
        assert np.array_equal(model.predict_proba(X), loaded.predict_proba(X))
        assert np.array_equal(model.leaf_probabilities(X), loaded.leaf_probabilities(X))
        assert repr(loaded.tree_) == repr(model.tree_)
        assert loaded.growth_ == model.growth_
        assert loaded.history_ == model.history_
        assert loaded.nodes_ == model.nodes_
        assert loaded.max_nodes_ == 7
        assert list(loaded.feature_names_in_) == list(X.columns)

    def test_a_file_of_another_estimator_is_refused(self, tmp_path):
        X, y = load_iris(return_X_y=True)
        ANTRegressor(**TINY, random_state=0).fit(X, y).save(tmp_path / "tree.safetensors")
        for other in (ANTClassifier, NRSClassifier):
            with pytest.raises(ModelFileError, match="ANTRegressor"):
                other.load(tmp_path / "tree.safetensors")

    def test_picture(self):
        import matplotlib.pyplot as plt

        X, y = load_iris(return_X_y=True)
        for model in (
            fitted_with_a_split(X, y),
            fitted_with_a_split(X, np.abs(X[:, 0] - 5.8), ANTRegressor),
        ):
            ax = model.plot_tree()
            words = [text.get_text() for text in ax.texts]
            kinds = [node["kind"] for node in model.nodes_]
            assert sum(word.startswith("router") for word in words) == kinds.count("router")
            assert sum(word.startswith("solver") for word in words) == kinds.count("solver")
            transformers = sum(node["transformers"] for node in model.nodes_)
            assert words.count("transformer") == transformers
            _, own = plt.subplots()
            assert model.plot_tree(own) is own
        plt.close("all")
