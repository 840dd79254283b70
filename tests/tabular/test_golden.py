"""The estimators answer what they answered when the values were stored."""

from pathlib import Path

import numpy as np
import pytest

from benchmarks.golden import SHORT, run

STORED = Path(__file__).parent / "golden.npz"


@pytest.fixture(scope="module")
def stored():
    with np.load(STORED) as content:
        return dict(content)


# What is stored is torch's.
@pytest.mark.usefixtures("forked_workers", "without_engine")
@pytest.mark.parametrize("name", SHORT)
def test_answers_are_those_stored(name, stored, tmp_path):
    found = run([name], tmp_path)
    expected = {key: value for key, value in stored.items() if key.startswith(f"{name}/")}
    assert expected.keys() == found.keys()
    for key, value in expected.items():
        np.testing.assert_allclose(found[key], value, rtol=1e-5, atol=1e-5, err_msg=key)
