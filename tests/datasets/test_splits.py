import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.model_selection import train_test_split

from nrs.datasets import Dataset, folds, random_split


@given(n=st.integers(2, 300), seed=st.integers(0, 2**31), size=st.sampled_from([0.2, 0.3, 0.5]))
def test_the_random_split_is_scikit_learn_s(n, seed, size):
    X = np.random.default_rng(0).normal(size=(n, 3))
    train, test = random_split(n, test_size=size, seed=seed)
    X_train, X_test = train_test_split(X, test_size=size, random_state=seed)
    np.testing.assert_array_equal(X[train], X_train)
    np.testing.assert_array_equal(X[test], X_test)
    assert sorted([*train, *test]) == list(range(n))
    assert len(test) == int(np.ceil(size * n))


def numbered(n, task="classification", **more):
    X = np.arange(n, dtype=np.float32)[:, None]
    y = np.arange(n) % 3 if task != "regression" else np.arange(n, dtype=np.float32)
    half = n // 2
    return Dataset(
        "numbered", X[:half], y[:half], X_test=X[half:], y_test=y[half:], task=task, **more
    )


@pytest.mark.parametrize("task", ["classification", "regression"])
@given(n=st.integers(2, 12), seed=st.integers(0, 100))
def test_every_row_is_tested_once(task, n, seed):
    dataset = numbered(60, task)
    parts = list(folds(dataset, n, seed))
    tested = np.concatenate([fold.X_test[:, 0] for fold in parts])
    assert len(parts) == n
    assert sorted(tested) == list(range(60))
    for fold in parts:
        assert not set(fold.X_test[:, 0]) & set(fold.X_train[:, 0])
        assert len(fold.X_train) + len(fold.X_test) == 60
        assert fold.X_val is None
        if task == "classification":
            np.testing.assert_array_equal(fold.y_test, fold.X_test[:, 0] % 3)


def test_folds_repeat_with_the_seed():
    first, again, other = ([f.X_test for f in folds(numbered(30), 5, seed)] for seed in (1, 1, 2))
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    assert not all(np.array_equal(a, b) for a, b in zip(first, other, strict=True))


def test_a_class_smaller_than_the_folds_does_not_warn(recwarn):
    dataset = Dataset("rare", np.zeros((50, 1), np.float32), np.array([0] * 47 + [1] * 3))
    assert len(list(folds(dataset))) == 10
    assert list(recwarn) == []


def test_queries_stay_whole():
    qid = np.repeat(np.arange(20), 3)
    dataset = Dataset(
        "ranking", np.zeros((60, 1), np.float32), qid % 2, qid_train=qid, task="ranking"
    )
    tested = [set(fold.qid_test) for fold in folds(dataset, 5)]
    assert sorted(q for queries in tested for q in queries) == list(range(20))


@pytest.mark.parametrize("n", [1, 0, 61])
def test_a_wrong_number_of_folds_is_told(n):
    with pytest.raises(ValueError, match=f"n={n}"):
        list(folds(numbered(60), n))
