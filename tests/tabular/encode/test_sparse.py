"""Sparse matrices."""

import json

import numpy as np
import pytest
from scipy import sparse
from sklearn.preprocessing import MaxAbsScaler

from nrs.tabular.encode.encoder import TableEncoder
from tests.tabular.encode.tables import NAN


@pytest.mark.parametrize("dtype", [bool, np.int64, np.float32, np.float64])
@pytest.mark.parametrize("make", [sparse.csr_matrix, sparse.csc_array, sparse.coo_array])
def test_sparse_is_scaled_and_stays_sparse(dtype, make):
    X = (np.random.default_rng(0).integers(-9, 9, size=(50, 20)) // 5).astype(dtype)
    X[:, 3] = 0
    encoder = TableEncoder().fit(make(X))
    Z = encoder.transform(make(X))
    assert sparse.issparse(Z)
    assert Z.format == "csr"
    assert Z.dtype == np.float32
    assert encoder.groups_.tolist() == [i for i in range(20) if i != 3]
    expected = MaxAbsScaler().fit_transform(X.astype(float))[:, encoder.groups_]
    np.testing.assert_allclose(Z.toarray(), expected, rtol=1e-6)
    np.testing.assert_allclose(encoder.transform(X).toarray(), expected, rtol=1e-6)
    assert encoder.transform(X.astype(object)).nnz == Z.nnz


def test_sparse_without_scaling_is_itself():
    X = sparse.random(30, 10, 0.1, format="csr", random_state=0)
    Z = TableEncoder(scale="none").fit_transform(X)
    np.testing.assert_array_equal(Z.toarray(), X.toarray().astype(np.float32))


def test_a_dense_encoder_takes_sparse_rows():
    X = np.random.default_rng(0).integers(0, 3, size=(50, 5)).astype(float)
    encoder = TableEncoder().fit(X)
    np.testing.assert_array_equal(encoder.transform(sparse.csr_array(X)), encoder.transform(X))


@pytest.mark.parametrize(("value", "message"), [(NAN, "holds NaN"), (np.inf, "infinite value")])
def test_sparse_refuses_what_is_not_finite(value, message):
    X = sparse.lil_matrix(np.eye(4))
    encoder = TableEncoder().fit(X)
    X[2, 1] = value
    for use in (TableEncoder().fit, encoder.transform):
        with pytest.raises(ValueError, match=rf"column 1 .*{message} .*row 2"):
            use(X)


def test_a_sparse_matrix_of_zeros_gives_one_zero_column():
    Z = TableEncoder().fit_transform(sparse.csr_matrix((4, 3)))
    assert Z.shape == (4, 1)
    assert Z.nnz == 0


def test_sparse_state_round_trip():
    X = sparse.random(40, 15, 0.1, format="csr", random_state=0)
    encoder = TableEncoder().fit(X)
    again = TableEncoder.from_state(json.loads(json.dumps(encoder.to_state())))
    np.testing.assert_array_equal(again.transform(X).toarray(), encoder.transform(X).toarray())


def test_sparse_values_in_the_units_of_the_table():
    encoder = TableEncoder().fit(sparse.csr_matrix([[0.0, 8.0, 0.0], [0.0, 0.0, -5.0]]))
    assert [encoder.original(0, 0.5), encoder.original(1, -1.0)] == ["4", "-5"]
    assert TableEncoder().fit(sparse.csr_matrix((4, 3))).original(0, 0.0) == "0"
