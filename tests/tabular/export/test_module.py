"""A fitted model as a plain module."""

import numpy as np
import pytest
import torch
from torch.export import Dim

from nrs import NRSClassifier, NRSRegressor
from tests.tabular.mixed import mixed_table

FAST = {"preset": "fast", "epochs": 2, "random_state": 0, "verbose": 0}


@pytest.mark.parametrize("preset", ["fast", "single", "paper"])
def test_the_module_gives_probabilities_and_can_be_exported(preset):
    X, y = mixed_table(80)
    model = NRSClassifier(**FAST | {"preset": preset}).fit(X, y)
    module = model.to_torch()
    x = torch.from_numpy(model.encoder_.transform(X))
    np.testing.assert_allclose(module(x).numpy(), model.predict_proba(X), atol=1e-5)
    rows = {"x": {0: Dim("rows", min=2, max=4096)}}
    program = torch.export.export(module, (x[:8],), dynamic_shapes=rows)
    for few in (x, x[:3]):
        torch.testing.assert_close(program.module()(few), module(few), atol=1e-5, rtol=1e-4)
    assert not [p for p in module.parameters() if p.requires_grad]


def test_numbers_with_their_preprocessing():
    rng = np.random.default_rng(0)
    X = rng.normal(2000, 5, size=(80, 5))
    X[:, 4] = 7.0
    X[::6, 1] = np.nan
    model = NRSRegressor(**FAST).fit(X, np.column_stack([X[:, 0], X[:, 2]]))
    module = model.to_torch(preprocessing=True)
    X[0, 0] = np.nan
    found = module(torch.from_numpy(X)).numpy()
    np.testing.assert_allclose(found, model.predict(X), rtol=1e-6, atol=1e-4)
    torch.export.export(module, (torch.from_numpy(X),))


def test_texts_do_not_fit_into_tensors():
    X, y = mixed_table(60)
    model = NRSClassifier(**FAST).fit(X, y)
    with pytest.raises(ValueError, match=r"this one has columns of \['category', 'date'\]"):
        model.to_torch(preprocessing=True)


def test_the_module_is_a_copy():
    X, y = mixed_table(60)
    model = NRSClassifier(**FAST).fit(X, y)
    before = model.predict_proba(X)
    for buffer in model.to_torch().buffers():
        buffer.zero_()
    assert np.array_equal(model.predict_proba(X), before)
