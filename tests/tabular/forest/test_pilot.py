"""Rows show whether numbers of few values are codes, which are read by levels."""

import numpy as np
import pytest
import torch

from nrs import NRSClassifier, NRSRegressor
from nrs.tabular.forest.grow import LEVELS

SHORT = {"epochs": 4, "hidden": 32, "random_state": 0, "verbose": 0}


def _codes(n_rows=3_000, seed=0):
    """Two codes of 24 things, and whether these are of one kind; their order means nothing."""
    kind = np.random.default_rng(0).permutation(24) % 2
    X = np.random.default_rng(seed).integers(0, 24, (n_rows, 2))
    return X.astype(np.float32), kind[X[:, 0]] == kind[X[:, 1]]


@pytest.fixture(scope="module")
def codes():
    return _codes()


@pytest.fixture(scope="module")
def fitted(codes):
    return NRSClassifier(**SHORT | {"epochs": 12}).fit(*codes)


@pytest.mark.parametrize("truth", [lambda X: X[:, 0] > 11, lambda X: X.sum(1) > 23])
def test_numbers_stay_numbers(codes, truth):
    """Also where both are all but certain: levels would say nothing beyond the known values."""
    X, _ = codes
    model = NRSClassifier(**SHORT | {"epochs": 1}).fit(X, truth(X))
    assert LEVELS not in {reading for reading, _ in model.views_}
    assert model.network_.bins.n_levels == 0


def test_codes_are_recognised(fitted):
    assert {reading for reading, _ in fitted.views_} == {LEVELS}
    assert fitted.network_.bins.n_levels == 48


def test_codes_are_learned(codes, fitted):
    X, y = _codes(seed=1)
    as_numbers = type(
        "NRSClassifier",
        (NRSClassifier,),
        {"_chosen": lambda self: NRSClassifier._chosen(self) | {"levels": 0}},
    )
    without = as_numbers(**SHORT | {"epochs": 12}).fit(*codes)
    assert fitted.score(X, y) > 0.98
    assert 3 * (1 - fitted.score(X, y)) < 1 - without.score(X, y)


def test_a_regressor_reads_codes_too(codes):
    X, y = codes
    model = NRSRegressor(**SHORT | {"epochs": 1}).fit(X, y * 5.0)
    assert {reading for reading, _ in model.views_} == {LEVELS}


def test_other_columns_keep_their_bins():
    rng = np.random.default_rng(0)
    X = np.column_stack([_codes()[0], rng.normal(size=3_000)]).astype(np.float32)
    model = NRSClassifier(**SHORT | {"epochs": 1}).fit(X, _codes()[1])
    bins, read = model.network_.bins, model.network_.index.unique() - 3
    assert {reading for reading, _ in model.views_} == {LEVELS}
    steps = torch.arange(bins.n_bins - bins.n_levels)
    of_number = steps[bins.source[steps] == 2]
    assert set(of_number.tolist()) == set(read[(read >= 0) & (read < len(steps))].tolist())


def test_a_file_keeps_levels(codes, fitted, tmp_path):
    X, _ = codes
    fitted.save(tmp_path / "codes.safetensors")
    again = NRSClassifier.load(tmp_path / "codes.safetensors")
    assert again.network_.bins.n_levels == 48
    np.testing.assert_array_equal(again.predict_proba(X), fitted.predict_proba(X))
    assert again.views_ == fitted.views_


def test_trees_name_levels(codes, fitted):
    names = {name for tree in fitted.trees(20) for name in tree.inputs}
    assert names <= {f"x{column}[{value}]" for column in (0, 1) for value in range(24)}
    assert fitted.feature_importances_ == pytest.approx([0.5, 0.5], abs=0.1)


def test_onnx_reads_levels(codes, fitted, tmp_path):
    pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")
    from nrs.tabular.export import onnx_inputs

    X = codes[0][:50] + np.float32([[0.0, 0.25]])  # between two codes too
    fitted.to_onnx(tmp_path / "codes.onnx")
    session = runtime.InferenceSession(tmp_path / "codes.onnx")
    names = [output.name for output in session.get_outputs()]
    found = dict(zip(names, session.run(None, onnx_inputs(fitted, X)), strict=True))
    np.testing.assert_allclose(found["probabilities"], fitted.predict_proba(X), atol=1e-5)
