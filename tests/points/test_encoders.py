"""Every encoder: counts, invariances, degenerate clouds, the questions all models answer."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from nrs.core import NRS, count, count_parameters, fold
from nrs.points import DGCNN, RSCNN, PointConv, PointHead, PointNet, PointNet2, add_head
from nrs.points.train import network_loss
from nrs.training.precision import probe_bf16

ENCODERS = [PointNet, PointNet2, DGCNN, PointConv, RSCNN]
COUNTS = {
    PointNet: 3_471_473,
    PointNet2: 1_475_880,
    DGCNN: 1_809_576,
    PointConv: 19_569_657,
    RSCNN: 1_289_505,
}
WITH_NRS = {PointNet: (3_769_457, 32), PointNet2: (1_773_864, 32), DGCNN: (2_995_368, 64)}


def small(kind, **arguments):
    """The published widths; fewer centres and neighbours, which have no weights."""
    few = {"centres": (32, 8), "k": (8, 8)}
    extra = {PointNet: {}, DGCNN: {"k": 6}}.get(kind, few)
    torch.manual_seed(0)
    return kind(10, **extra, **arguments)


def cloud(model, batch=2, points=60, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(batch, points, model.channels, generator=generator) * 2 - 1


@pytest.fixture(scope="module", params=ENCODERS, ids=lambda kind: kind.__name__)
def trained(request):
    """A model whose running statistics and weights have seen a few steps."""
    model = small(request.param)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    for seed in range(3):
        optimizer.zero_grad()
        model(cloud(model, 4, seed=seed)).square().mean().backward()
        optimizer.step()
    return model.eval()


@pytest.mark.parametrize("kind", ENCODERS)
def test_parameters_are_the_published_ones(kind):
    assert count_parameters(kind(num_classes=40)) == COUNTS[kind]


@pytest.mark.parametrize("kind", WITH_NRS)
def test_parameters_with_nrs_are_the_paper_s(kind):
    wanted, n_per = WITH_NRS[kind]
    model = kind(num_classes=40, subspace=dict(n_mul=1, n_per=n_per))
    assert count_parameters(model) == wanted
    assert isinstance(model.head.subspace, NRS)


@pytest.mark.parametrize("kind", ENCODERS)
@pytest.mark.parametrize("normals", [False, True])
def test_every_model_answers_the_same_questions(kind, normals):
    model = small(kind, normals=normals, subspace=dict(n_mul=2, n_per=32))
    x = cloud(model, 3)
    assert x.shape[2] == (6 if normals else 3)
    loss = model(x).square().mean()
    loss.backward()
    trained = [p for p in model.parameters() if p.requires_grad]
    assert all(p.grad is not None and p.grad.isfinite().all() for p in trained)
    model.eval()
    features = model.forward_features(x)
    assert features.shape == (3, model.num_features)
    assert torch.equal(model.forward_head(features), model(x))
    assert model.forward_head(features, pre_logits=True).shape == (3, 256)
    model.reset_classifier(7)
    assert model.num_classes == 7
    assert model(x).shape == (3, 7)


@pytest.mark.parametrize("kind", ENCODERS)
def test_every_model_trains_in_bfloat16(kind):
    if not probe_bf16():
        pytest.skip("this CPU has no working bfloat16 products")
    model = small(kind, subspace=dict(n_mul=1, n_per=32)).bfloat16()
    scores = model(cloud(model, 4).bfloat16())
    assert scores.dtype == torch.bfloat16
    loss = scores.square().mean()
    loss = loss + model.auxiliary_loss() if kind is PointNet else loss
    loss.backward()
    assert all(p.grad.isfinite().all() for p in model.parameters() if p.requires_grad)


@settings(max_examples=6)
@given(seed=st.integers(0, 10**6))
def test_the_order_of_points_does_not_matter(trained, seed):
    x = cloud(trained, 2, 80, seed)
    order = torch.randperm(80, generator=torch.Generator().manual_seed(seed))
    with torch.no_grad():
        torch.testing.assert_close(trained(x), trained(x[:, order]), rtol=1e-5, atol=1e-5)


def test_ties_between_points_do_not_bring_the_order_back(trained):
    # A grid is full of equal distances, and some points come twice.
    side = torch.linspace(-1, 1, 4)
    grid = torch.cartesian_prod(side, side, side)
    points = torch.cat([grid, grid[:9]])
    if trained.normals:
        points = torch.cat([points, torch.nn.functional.normalize(points + 0.1, dim=-1)], dim=-1)
    order = torch.randperm(len(points), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        a, b = trained(points[None]), trained(points[None, order])
    torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-5)


def test_a_cloud_does_not_depend_on_its_batch(trained):
    x = cloud(trained, 3)
    with torch.no_grad():
        torch.testing.assert_close(trained(x)[1:2], trained(x[1:2]), rtol=1e-4, atol=1e-5)


@settings(max_examples=10)
@given(seed=st.integers(0, 10**6), copies=st.integers(1, 60))
def test_pointnet_does_not_see_points_that_come_twice(seed, copies):
    model = small(PointNet).eval()
    x = cloud(model, 2, 60, seed)
    with torch.no_grad():
        a, b = model(x), model(torch.cat([x, x[:, :copies]], dim=1))
    torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("what", ["one point", "all the same", "collinear", "two", "far", "huge"])
def test_degenerate_clouds_have_finite_scores(trained, what):
    c = trained.channels
    line = torch.linspace(-1, 1, 50)[:, None] * torch.ones(c)
    points = {
        "one point": torch.ones(1, c),
        "all the same": torch.ones(50, c),
        "collinear": line,
        "two": torch.cat([torch.zeros(20, c), torch.ones(30, c)]),
        "far": line + 1000,
        "huge": line * 1e6,
    }[what]
    with torch.no_grad():
        assert trained(points[None]).isfinite().all()


@pytest.mark.parametrize("what", ["all the same", "collinear"])
@pytest.mark.parametrize("kind", ENCODERS)
def test_degenerate_clouds_have_finite_gradients(kind, what):
    model = small(kind)
    x = torch.ones(2, 40, model.channels)
    if what == "collinear":
        x = x * torch.linspace(-1, 1, 40)[:, None]
    model(x).square().mean().backward()
    trained = [p for p in model.parameters() if p.requires_grad]
    assert all(p.grad is not None and p.grad.isfinite().all() for p in trained)


def test_a_cloud_of_another_shape_is_refused(trained):
    with pytest.raises(ValueError, match=r"must have the shape \(clouds, points, \d\), however"):
        trained(torch.zeros(2, 10, 4))
    with pytest.raises(ValueError, match="every cloud must have a point"):
        trained(torch.zeros(2, 0, trained.channels))
    with pytest.raises(ValueError, match="global features must have the shape"):
        trained.forward_head(torch.zeros(2, 3))


def test_training_samples_centres_at_random():
    model = small(PointNet2, dropout=0.0)
    x = cloud(model, 2, 200)
    torch.manual_seed(1)
    a, b = model(x), model(x)
    assert not torch.equal(a, b)


def test_the_penalty_of_pointnet_is_that_of_its_feature_transform():
    model = small(PointNet)
    with pytest.raises(RuntimeError, match="forward pass in training mode"):
        model.auxiliary_loss()
    nn.init.zeros_(model.feature_transform.matrix.weight)
    nn.init.zeros_(model.feature_transform.matrix.bias)
    model(cloud(model))
    assert model.auxiliary_loss() == 0
    nn.init.constant_(model.feature_transform.matrix.bias, 0.01)
    model(cloud(model))
    model.auxiliary_loss().backward()
    assert model.feature_transform.matrix.bias.grad.abs().sum() > 0


def test_flops_are_those_of_the_published_layers():
    model = DGCNN(40)
    counts = count(model, torch.rand(1, 100, 3))
    edges = 100 * 20
    convolutions = edges * (6 * 64 + 128 * 64 + 128 * 128 + 256 * 256) + 100 * 512 * 1024
    assert counts.macs == convolutions + 2048 * 512 + 512 * 256 + 256 * 40
    pointnet = count(PointNet(40), torch.rand(1, 1024, 3))
    assert round(pointnet.macs / 1e6, 2) == 435.43


@pytest.mark.parametrize("kind", WITH_NRS)
def test_a_folded_model_gives_the_same_scores(kind):
    model = small(kind, subspace=dict(n_mul=1, n_per=32))
    x = cloud(model, 4)
    model(x)
    model.eval()
    with torch.no_grad():
        torch.testing.assert_close(fold(model)(x), model(x), rtol=1e-4, atol=1e-4)


def test_a_head_for_any_encoder():
    class Mean(nn.Module):
        def forward(self, x):
            return x.mean(1)

    model = add_head(Mean(), 5, num_features=3, subspace=dict(n_mul=4, n_per=1), hidden=(8,))
    model(torch.randn(4, 20, 3)).sum().backward()
    assert model.forward_features(torch.randn(4, 20, 3)).shape == (4, 3)
    model.reset_classifier(2)
    assert model.eval()(torch.randn(1, 20, 3)).shape == (1, 2)
    plain = small(PointNet)
    own = add_head(plain, 6)
    assert own.head.subspace.n_per == 32
    # No weights of the old head stay behind.
    assert own is plain
    assert count_parameters(own) == count_parameters(PointNet(6, dict(n_per=32)))
    assert own.num_classes == 6
    again = add_head(model, 3, subspace=dict(n_per=3))
    assert (again is model, again.num_classes) == (True, 3)
    assert own.eval()(torch.randn(1, 20, 3)).shape == (1, 6)
    with pytest.raises(ValueError, match="pass num_features"):
        add_head(Mean(), 5)


@pytest.mark.parametrize(("width", "n_per"), [(1024, 32), (1000, 25), (100, 25), (7, 7)])
def test_a_head_fits_any_width_device_and_dtype(width, n_per):
    class Encoder(nn.Module):
        num_features = width

        def __init__(self):
            super().__init__()
            self.register_parameter("step", nn.Parameter(torch.zeros(1).long(), False))
            self.layer = nn.Linear(3, width)

        def forward(self, x):
            return self.layer(x).amax(1)

    model = add_head(Encoder().double(), 10)
    assert model.head.subspace.n_per == n_per
    assert model(torch.randn(4, 20, 3).double()).dtype == torch.float64
    assert not hasattr(model, "auxiliary_loss")
    empty = add_head(Encoder().to("meta"), 10)
    assert all(p.is_meta for p in empty.parameters())


def test_a_head_keeps_the_penalty_of_its_encoder():
    class Wrapped(nn.Module):
        num_features = 1024

        def __init__(self):
            super().__init__()
            self.inner = small(PointNet)
            self.auxiliary_loss = self.inner.auxiliary_loss

        def forward(self, x):
            return self.inner.forward_features(x)

    model = add_head(Wrapped(), 10)
    loss = network_loss(model, 0.0)
    labels = torch.tensor([0, 1])
    value = loss(model, cloud(model.encoder.inner), labels)
    with torch.no_grad():
        assert model.auxiliary_loss() == model.encoder.inner.auxiliary_loss() > 0
    value.backward()
    assert model.encoder.inner.feature_transform.matrix.bias.grad.abs().sum() > 0


def test_a_subspace_that_is_no_mapping_is_refused():
    with pytest.raises(TypeError, match="None or a mapping"):
        PointHead(8, 2, subspace=3)
    with pytest.raises(ValueError, match="n_per must divide"):
        PointHead(8, 2, subspace=dict(n_per=3))
    with pytest.raises(ValueError, match="num_classes must be at least 1"):
        PointHead(8, 0)
