import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_breast_cancer

from nrs import NRSClassifier
from nrs.tabular.forest.bins import PiecewiseLinear
from nrs.tabular.forest.network import ForestNetwork
from nrs.tabular.targets import ClassTarget, RegressionTarget, weigh_views


@given(st.integers(0, 1000), st.integers(2, 4))
@settings(max_examples=20, deadline=None)
def test_learned_shares_are_never_worse_than_equal_ones(seed, n_views):
    generator = torch.Generator().manual_seed(seed)
    truth = torch.randn(200, 1, generator=generator)
    noise = torch.rand(n_views, 1, 1, generator=generator)
    outputs = truth.t() + noise * torch.randn(n_views, 1, 200, generator=generator)
    shares = weigh_views(outputs, truth, RegressionTarget.of(truth.numpy()[:, 0]))
    torch.testing.assert_close(shares.sum(), torch.tensor(float(n_views)))

    def error(weights):
        joint = (outputs * (weights / weights.sum()).view(-1, 1, 1)).sum(0)
        return float((joint - truth.t()).square().mean())

    assert error(shares) <= error(torch.ones(n_views)) + 1e-9


def test_a_useless_view_is_dropped_and_views_alike_stay_equal():
    truth = torch.randn(500, 1, generator=torch.Generator().manual_seed(0))
    target = RegressionTarget.of(truth.numpy()[:, 0])
    useless = 5 * torch.randn(1, 500, generator=torch.Generator().manual_seed(1))
    assert weigh_views(torch.stack([truth.t(), useless]), truth, target).tolist() == [2, 0]
    alike = truth.t() + torch.randn(2, 1, 500, generator=torch.Generator().manual_seed(2))
    assert weigh_views(alike, truth, target).tolist() == [1, 1]


def test_rows_without_weight_do_not_decide():
    truth = torch.arange(100) % 2
    right = torch.stack([1.0 - truth, 1.0 * truth]) * 4
    mixed = torch.where(torch.arange(100) < 50, right, -right)
    views, target = torch.stack([mixed, -mixed]), ClassTarget(np.arange(2))
    weights = (torch.arange(100) < 50).float()
    assert weigh_views(views, truth, target, weights).tolist() == [2, 0]
    assert weigh_views(views, truth, target, 1 - weights).tolist() == [0, 2]


def test_kept_members_answer_as_before():
    index = torch.randint(0, 5, (4, 6, 3), generator=torch.Generator().manual_seed(0))
    bins = PiecewiseLinear.between([(0, [-1.0, 0.0, 1.0])])
    forest = ForestNetwork(5, 3, index, bins, hidden=(7, 8), dropout=0.1)
    x = torch.randn(64, 5, generator=torch.Generator().manual_seed(1))
    forest.train().members(x)  # moves the statistics
    forest.eval()
    kept = forest.keep(torch.tensor([1, 3]))
    assert not kept.training
    torch.testing.assert_close(kept.members(x), forest.members(x)[[1, 3]])
    torch.testing.assert_close(kept.fold().members(x), forest.fold().members(x)[[1, 3]])
    assert forest.keep(torch.arange(4)) is forest


def test_the_best_preset_weighs_six_views_and_saves_what_it_kept(tmp_path):
    X, y = load_breast_cancer(return_X_y=True)
    model = NRSClassifier(preset="best", epochs=4, random_state=0, verbose=0).fit(X, y)
    assert len(model.recipe_.views) == 6
    shares = model.network_.shares
    assert (shares > 0).all()
    assert len(shares) % 8 == 0
    model.save(tmp_path / "model.safetensors")
    loaded = NRSClassifier.load(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
