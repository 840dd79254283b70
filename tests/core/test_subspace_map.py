"""Every formulation is the paper's grouped convolution, forward and backward."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nrs import NRS
from nrs.core import FORMULATIONS, dense_weight, draw_index, subspace_map
from nrs.core.subspace_map import choose
from tests.core.shapes import Shape, assert_close, grouped_convolution, seeded, shapes


def _tensors(shape: Shape, dtype=torch.float32):
    generator = seeded(shape.seed)
    index = draw_index(shape.d, shape.n_mul, shape.n_h, layout=shape.layout, generator=generator)
    weight_shape = (shape.channels, shape.n_per, shape.n_h, shape.n_h)
    x, weight, bias, upstream = (
        torch.randn(size, generator=generator, dtype=dtype)
        for size in (
            (shape.batch, shape.d),
            weight_shape,
            (shape.channels,),
            (shape.batch, shape.channels),
        )
    )
    return index, x, weight, bias, upstream


def _results(function, upstream, *inputs):
    leaves = [tensor.clone().requires_grad_() for tensor in inputs]
    output = function(*leaves)
    return [output.detach(), *torch.autograd.grad(output, leaves, upstream)]


def _as_map(shape: Shape, index, formulation):
    groups = shape.channels // shape.n_per

    def apply(x, weight, bias):
        kernels = weight.view(groups, shape.n_per, -1)
        return subspace_map(x, index.view(groups, -1), kernels, bias, formulation=formulation)

    return apply


@given(shapes(), st.sampled_from([*FORMULATIONS, "auto"]))
@settings(max_examples=150)
def test_formulations_equal_the_grouped_convolution(shape, formulation):
    index, x, weight, bias, upstream = _tensors(shape)
    if formulation == "bag" and shape.n_per > 1:
        with pytest.raises(ValueError, match="Use formulation='blocks'"):
            _as_map(shape, index, formulation)(x, weight, bias)
        return
    reference = _results(
        lambda *leaves: grouped_convolution(leaves[0], index, *leaves[1:]),
        upstream.double(),
        x.double(),
        weight.double(),
        bias.double(),
    )
    results = _results(_as_map(shape, index, formulation), upstream, x, weight, bias)
    for got, expected in zip(results, reference, strict=True):
        assert_close(got.double(), expected)


@given(shapes(max_weights=300, max_d=12), st.sampled_from(FORMULATIONS))
@settings(max_examples=25)
def test_gradcheck(shape, formulation):
    if formulation == "bag" and shape.n_per > 1:
        return
    shape = Shape(**{**shape.__dict__, "batch": min(shape.batch, 20)})
    index, x, weight, bias, _ = _tensors(shape, torch.float64)
    leaves = [tensor.requires_grad_() for tensor in (x, weight, bias)]
    assert torch.autograd.gradcheck(_as_map(shape, index, formulation), leaves)


@given(
    st.integers(1, 4),
    st.integers(1, 40),
    st.integers(1, 6),
    st.integers(1, 3),
    st.integers(1, 6),
    st.integers(1, 40),
    st.sampled_from([*FORMULATIONS, "auto"]),
    st.booleans(),
)
def test_member_axis_is_a_map_a_member(members, d, groups, outputs, size, batch, how, with_bias):
    if how == "bag":
        outputs = 1
    generator = seeded(members * 1000 + d)
    x = torch.randn(batch, members, d, generator=generator)
    index = torch.randint(d, (members, groups, size), generator=generator)
    weight = torch.randn(members, groups, outputs, size, generator=generator)
    bias = torch.randn(members, groups * outputs, generator=generator) if with_bias else None
    together = subspace_map(x, index, weight, bias, formulation=how)
    alone = [
        subspace_map(
            x[:, k], index[k], weight[k], None if bias is None else bias[k], formulation="conv"
        )
        for k in range(members)
    ]
    assert_close(together, torch.stack(alone, 1))
    shared = subspace_map(x[:, 0], index, weight, bias, formulation=how)
    copied = x[:, :1].expand(batch, members, d)
    assert_close(shared, subspace_map(copied, index, weight, bias, formulation="conv"))


@pytest.mark.parametrize("formulation", FORMULATIONS)
def test_any_leading_dimensions_and_none_of_them(formulation):
    index = torch.randint(6, (4, 3))
    weight = torch.randn(4, 1, 3)
    x = torch.randn(2, 3, 5, 6)
    result = subspace_map(x, index, weight, formulation=formulation)
    assert result.shape == (2, 3, 5, 4)
    flat = subspace_map(x.reshape(30, 6), index, weight, formulation="conv")
    assert_close(result.reshape(30, 4), flat)
    assert_close(subspace_map(x[0, 0, 0], index, weight, formulation=formulation), flat[0])


def test_an_empty_batch_gives_an_empty_result():
    assert NRS(5, n_mul=2).eval()(torch.empty(0, 5)).shape == (0, 10)
    assert NRS(500).eval()(torch.empty(0, 500)).shape == (0, 500)


def test_dense_weight_accumulates_a_feature_read_twice():
    matrix = dense_weight(torch.tensor([[1, 1, 0]]), torch.tensor([[[2.0, 3.0, 7.0]]]), 2)
    assert matrix.tolist() == [[7.0, 5.0]]


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"formulation": "fft"}, ValueError, "formulation must be .* got 'fft'"),
        ({"index": torch.zeros(4, 2, dtype=torch.int64)}, ValueError, r"index \(4, 2\)"),
        ({"index": torch.zeros(4, 3, dtype=torch.int32)}, TypeError, "Use index.long"),
        ({"weight": torch.zeros(4, 3)}, ValueError, r"weight \(4, 3\)"),
        ({"x": torch.zeros(2, 6, dtype=torch.int64)}, TypeError, r"x.float\(\)"),
        ({"x": torch.zeros(2, 6, dtype=torch.complex64)}, TypeError, "complex64"),
        ({"x": torch.zeros(2, 6, dtype=torch.float64)}, TypeError, "torch.float64"),
        ({"x": [[0.0] * 6]}, TypeError, "list"),
        ({"bias": torch.zeros(3)}, ValueError, r"\(3,\)"),
    ],
)
def test_bad_arguments_say_what_came(change, error, message):
    arguments = {
        "x": torch.zeros(2, 6),
        "index": torch.zeros(4, 3, dtype=torch.int64),
        "weight": torch.zeros(4, 1, 3),
        "bias": None,
        "formulation": "auto",
    } | change
    with pytest.raises(error, match=message):
        subspace_map(**arguments)


def test_members_need_a_member_axis():
    with pytest.raises(ValueError, match=r"\(B, 2, d\)"):
        subspace_map(
            torch.zeros(5, 3, 3), torch.zeros(2, 4, 3, dtype=torch.int64), torch.zeros(2, 4, 1, 3)
        )


@given(
    st.integers(1, 10_000), st.integers(1, 64), st.integers(0, 5000), st.booleans(),
    st.sampled_from([None, "weights", "inputs"]),
)  # fmt: skip
def test_auto_never_chooses_what_does_not_apply(features, outputs, batch, folded, gradient):
    chosen = choose(features, (8, outputs, 9), batch, folded=folded, gradient=gradient)
    assert chosen in FORMULATIONS
    assert not (chosen == "bag" and outputs > 1)
