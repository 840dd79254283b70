"""Batches, recipes, targets and metrics, each on its own."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given
from hypothesis import strategies as st

from nrs.tabular.network import TableNetwork
from nrs.tabular.recipe import PRESETS, Recipe, resolve
from nrs.tabular.rows.memory import Rows, ShuffledBatches
from nrs.tabular.targets import (
    ClassTarget,
    MultilabelTarget,
    RegressionTarget,
    labels_as_array,
    target_from_state,
)


@given(st.integers(2, 200), st.integers(2, 64), st.booleans())
def test_an_epoch_holds_every_row_once_and_no_batch_of_one(n, batch_size, sparse):
    features = np.arange(n, dtype=np.float32)[:, None] + 1
    rows = Rows(sp.csr_matrix(features) if sparse else features, np.arange(n))
    batches = ShuffledBatches(rows, batch_size)
    seen = list(batches(0, torch.Generator().manual_seed(n)))
    assert len(seen) == len(batches)
    assert min(len(x) for x, _, _ in seen) > 1
    assert max(len(x) for x, _, _ in seen) <= batch_size + 1
    everything = torch.cat([y for _, y, _ in seen])
    assert sorted(everything.tolist()) == list(range(n))
    for x, y, _ in seen:
        assert torch.equal(x[:, 0].long() - 1, y)


def test_only_the_rows_of_a_part_are_taken():
    rows = Rows(np.zeros((10, 1), np.float32), np.arange(10), np.ones(10, np.float32), [2, 5, 7])
    assert [y.tolist() for _, y, _ in rows.in_order()] == [[2, 5, 7]]
    wide = Rows(sp.csr_matrix((150, 10**6), dtype=np.float32), np.arange(150))
    assert [len(y) for _, y, _ in wide.in_order()] == [64, 64, 22]


@given(st.integers(1, 10**7), st.integers(1, 10**5), st.sampled_from(PRESETS))
def test_every_size_of_table_has_a_recipe(n, features, preset):
    recipe = resolve(preset, {}, n, features)
    assert recipe.n_mul >= 1
    if preset in ("default", "single"):
        assert recipe.epochs * -(-n // recipe.batch_size) >= 400
    assert (recipe.members > 0) == (preset in ("default", "fast", "best"))
    assert Recipe.from_dict(recipe.to_dict()) == recipe


def test_what_the_user_chose_wins():
    recipe = resolve("default", {"n_mul": 0, "hidden": 7, "lr": None}, 100, 5)
    assert (recipe.n_mul, recipe.hidden, recipe.lr) == (0, (7,), 2e-3)


@pytest.mark.parametrize(
    "bad", [{"n_mul": -1}, {"n_h": 1.5}, {"dropout": 1.0}, {"scale": "robust"}, {"batch_size": 1}]
)
def test_a_value_out_of_range(bad):
    with pytest.raises(ValueError, match=next(iter(bad))):
        resolve("default", bad, 100, 5)


@pytest.mark.parametrize(
    "target",
    [
        ClassTarget(np.array(["a", "b"])),
        ClassTarget(np.array([1, 5])),
        ClassTarget(np.array([0.1, 0.2])),
        ClassTarget(np.array(["a", "b"], dtype=object)),
        MultilabelTarget(3),
        RegressionTarget(np.array([0.1, 1 / 3]), np.array([1e-30, 2.0]), single=False),
    ],
)
def test_targets_survive_their_state(target):
    import json

    again = target_from_state(json.loads(json.dumps(target.state())))
    assert again.state() == target.state()
    assert again.n_outputs == target.n_outputs


def test_weights_of_the_loss_are_relative():
    target = ClassTarget(np.arange(3))
    output, y = torch.randn(8, 3), torch.arange(8) % 3
    weights = torch.rand(8)
    once = target.loss(output, y, weights)
    assert torch.allclose(once, target.loss(output, y, weights * 7))
    assert torch.allclose(target.loss(output, y, torch.ones(8)), target.loss(output, y, None))
    assert target.loss(output, y, torch.zeros(8)) == 0


def test_labels_become_plain_arrays():
    assert labels_as_array(["a", "b"]).dtype.kind == "U"
    assert labels_as_array(np.array([1, 2], dtype=object)).dtype.kind == "i"
    assert labels_as_array(np.array([1, "a"], dtype=object)).dtype.kind == "O"


def test_metrics_of_several_labels():
    target = MultilabelTarget(2)
    outputs, y = torch.tensor([[5.0, -5.0], [-5.0, 5.0]]), torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    for metric in ("accuracy", "roc_auc", "f1"):
        assert target.evaluate(metric, outputs, y)["score"] == 1.0
    assert target.evaluate("log_loss", outputs, y)["val_log_loss"] == pytest.approx(
        np.log1p(np.exp(-5)), rel=1e-4
    )


def test_roc_auc_of_three_classes():
    target = ClassTarget(np.arange(3))
    outputs = torch.eye(3).repeat(3, 1) * 4
    assert target.evaluate("roc_auc", outputs, torch.arange(9) % 3)["score"] == 1.0


def test_same_seed_same_network():
    first, second = (TableNetwork(5, 2, seed=3).state_dict() for _ in range(2))
    for key, value in first.items():
        assert torch.equal(value, second[key])
