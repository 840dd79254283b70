import numpy as np
import pytest
import torch

from nrs.tabular.targets import (
    ClassTarget,
    ColumnsTarget,
    PoissonTarget,
    QuantileTarget,
    RegressionTarget,
    SurvivalTarget,
)

Y = np.array([1.0, 2.0, 4.0, 9.0])
TARGETS = {
    "Unweighted": ClassTarget(np.arange(2), None, np.array([1.0, 3.0])),
    "OfColumns": ColumnsTarget([ClassTarget(np.arange(n)) for n in (2, 3)]),
    "Scale": RegressionTarget.of(Y),
    "Ascending": QuantileTarget((0.1, 0.5, 0.9)).learned(Y),
    "Exponential": PoissonTarget().learned(Y),
    "Median": SurvivalTarget().learned(np.column_stack([Y, Y])),
}


@pytest.mark.parametrize("name", TARGETS)
def test_a_module_gives_the_answers_of_its_target(name):
    target = TARGETS[name]
    module = target.to_torch()
    assert type(module).__name__ == name
    outputs = torch.randn(5, target.n_outputs, generator=torch.Generator().manual_seed(0))
    found = module(outputs).double().numpy()
    if name == "Ascending":
        expected = target.quantiles(outputs.numpy())
    else:
        expected = target.answer(outputs.numpy()).reshape(5, -1)
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    # Arrays and tensors are answered alike.
    assert np.array_equal(target.answer(outputs), target.answer(outputs.numpy()))
