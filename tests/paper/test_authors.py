"""The authors' checkpoints, as networks with their names and shapes save them."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from nrs.paper.authors import load_authors
from nrs.points import create
from nrs.tabular import TableNetwork
from nrs.vision import add_head
from nrs.vision._torchvision import torchvision


def _sequence(channels, n_per):
    return nn.Sequential(
        nn.Conv2d(channels, channels, 3, groups=channels // n_per),
        nn.BatchNorm2d(channels),
        nn.ReLU(),
    )


def _mask(d, n_mul, n_h=3):
    rng = np.random.default_rng(0)
    return torch.from_numpy(np.concatenate([rng.permutation(d) for _ in range(n_h**2 * n_mul)]))


def _stir(module):
    """Statistics and scales that no fresh network has."""
    generator = torch.Generator().manual_seed(0)
    for value in module.state_dict().values():
        if value.is_floating_point():
            value.copy_(torch.rand(value.shape, generator=generator) + 0.1)
    return module.eval()


class _Layer(nn.Module):
    """The layer of either repository: sequences 'nrs', 'nrs2' or 'nfl1', 'nfl2'."""

    def __init__(self, d, n_mul, n_per, names=("nrs",), n_h=3):
        super().__init__()
        self.names, self.n_h, self.channels = names, n_h, d * n_mul
        self.register_buffer("mask", _mask(d, n_mul, n_h))
        for name in names:
            setattr(self, name, _sequence(d * n_mul, n_per))

    def forward(self, x):
        x = x[:, self.mask].view(len(x), self.channels, self.n_h, self.n_h)
        for name in self.names:
            x = getattr(self, name)(x)
        return x.flatten(1)


class _Table(nn.Module):
    def __init__(self, **layer):
        super().__init__()
        self.nrs_layer = _Layer(8, 2, 2, **layer)
        self.dense = nn.Sequential(
            nn.Linear(16, 12), nn.BatchNorm1d(12), nn.ReLU(),
            nn.Linear(12, 12), nn.BatchNorm1d(12), nn.ReLU(), nn.Linear(12, 3),
        )  # fmt: skip

    def forward(self, x):
        return self.dense(self.nrs_layer(x))


@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize("parallel", [False, True])
def test_a_table_network(depth, parallel, tmp_path):
    deeper = {"names": ("nrs", "nrs2"), "n_h": 5} if depth == 2 else {}
    theirs = _stir(_Table(**deeper))
    state = nn.DataParallel(theirs).state_dict() if parallel else theirs.state_dict()
    torch.save({"epoch": 3, "state_dict": state}, tmp_path / "best.pth")
    ours = TableNetwork(
        8, 3, n_mul=2, n_per=2, n_h=3 if depth == 1 else 5, depth=depth, hidden=(12, 12)
    )
    load_authors(ours, torch.load(tmp_path / "best.pth", weights_only=True)).eval()
    x = torch.randn(5, 8)
    torch.testing.assert_close(ours(x), theirs(x))


class _ResNet(nn.Module):
    """torchvision's ResNet-18 with their names around it: mask, nfl1, dense."""

    def __init__(self, backbone):
        super().__init__()
        for name, child in backbone.named_children():
            if name != "fc":
                setattr(self, name, child)
        self.register_buffer("mask", _mask(512, 2))
        self.nfl1, self.nfl2 = _sequence(1024, 32), nn.Sequential()
        self.dense = nn.Sequential(nn.Linear(1024, 5))

    def forward(self, x):
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        x = self.avgpool(x).flatten(1)[:, self.mask].view(len(x), 1024, 3, 3)
        return self.dense(self.nfl1(x).flatten(1))


def test_a_resnet():
    models = torchvision().models
    theirs = _stir(_ResNet(models.resnet18()))
    ours = add_head(models.resnet18(), 5, 2, 32)
    load_authors(ours, {f"module.{k}": v for k, v in theirs.state_dict().items()}).eval()
    x = torch.randn(2, 3, 64, 64)
    torch.testing.assert_close(ours(x), theirs(x), rtol=1e-4, atol=1e-3)


class _Transform(nn.Module):
    def __init__(self, d_in, d):
        super().__init__()
        widths = (d_in, 64, 128, 1024)
        for k in (1, 2, 3):
            setattr(self, f"conv{k}", nn.Conv1d(widths[k - 1], widths[k], 1))
            setattr(self, f"bn{k}", nn.BatchNorm1d(widths[k]))
        self.fc1, self.fc2, self.fc3 = (
            nn.Linear(1024, 512), nn.Linear(512, 256), nn.Linear(256, d * d)
        )  # fmt: skip
        self.bn4, self.bn5 = nn.BatchNorm1d(512), nn.BatchNorm1d(256)
        self.d = d

    def forward(self, x):
        for k in (1, 2, 3):
            x = F.relu(getattr(self, f"bn{k}")(getattr(self, f"conv{k}")(x)))
        x = x.amax(2)
        x = F.relu(self.bn5(self.fc2(F.relu(self.bn4(self.fc1(x))))))
        return self.fc3(x).view(-1, self.d, self.d) + torch.eye(self.d)


class _Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.stn, self.fstn = _Transform(3, 3), _Transform(64, 64)
        for k, (a, b) in enumerate(((3, 64), (64, 128), (128, 1024)), start=1):
            setattr(self, f"conv{k}", nn.Conv1d(a, b, 1))
            setattr(self, f"bn{k}", nn.BatchNorm1d(b))

    def forward(self, x):
        x = torch.bmm(x.transpose(2, 1), self.stn(x)).transpose(2, 1)
        x = F.relu(self.bn1(self.conv1(x)))
        x = torch.bmm(x.transpose(2, 1), self.fstn(x)).transpose(2, 1)
        x = F.relu(self.bn2(self.conv2(x)))
        return self.bn3(self.conv3(x)).amax(2)


class _PointNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.feat, self.nrs = _Encoder(), _Layer(1024, 1, 32, names=("nfl1",))
        self.fc1, self.fc2, self.fc3 = (
            nn.Linear(1024, 512), nn.Linear(512, 256), nn.Linear(256, 4)
        )  # fmt: skip
        self.bn1, self.bn2 = nn.BatchNorm1d(512), nn.BatchNorm1d(256)

    def forward(self, x):
        x = self.nrs(self.feat(x))
        return self.fc3(F.relu(self.bn2(self.fc2(F.relu(self.bn1(self.fc1(x)))))))


def test_pointnet_gives_the_same_scores():
    torch.manual_seed(0)
    theirs = _PointNet().eval()
    for module in theirs.modules():
        if isinstance(module, (nn.BatchNorm1d, nn.BatchNorm2d)):
            module.running_mean.normal_(0, 0.1)
            module.running_var.uniform_(0.5, 2)
    ours = create("pointnet", 4, subspace={"n_mul": 1, "n_per": 32})
    load_authors(ours, {"model_state_dict": theirs.state_dict()}).eval()
    x = torch.randn(3, 50, 3)
    torch.testing.assert_close(ours(x), theirs(x.transpose(1, 2)), rtol=1e-4, atol=1e-4)


def _norm(name, width):
    shapes = {f"{name}.{key}": (width,) for key in ("weight", "bias", "running_mean")}
    return shapes | {f"{name}.running_var": (width,), f"{name}.num_batches_tracked": ()}


def _subspace(name, d, n_per):
    return {
        f"{name}.nfl1.0.weight": (d, n_per, 3, 3), f"{name}.nfl1.0.bias": (d,),
        **_norm(f"{name}.nfl1.1", d),
    }  # fmt: skip


def _classifier(prefix, d, norms, first_bias=True):
    shapes = {
        f"{prefix}1.weight": (512, d), f"{prefix}2.weight": (256, 512), f"{prefix}2.bias": (256,),
        f"{prefix}3.weight": (4, 256), f"{prefix}3.bias": (4,),
    }  # fmt: skip
    if first_bias:
        shapes[f"{prefix}1.bias"] = (512,)
    return shapes | _norm(f"bn{norms[0]}", 512) | _norm(f"bn{norms[1]}", 256)


def _pointnet2():
    shapes = _subspace("nfl", 1024, 32) | _classifier("fc", 1024, (1, 2))
    widths = {1: (6, 64, 64, 128), 2: (131, 128, 128, 256), 3: (259, 256, 512, 1024)}
    for level, sizes in widths.items():
        for k in range(3):
            shapes[f"sa{level}.mlp_convs.{k}.weight"] = (sizes[k + 1], sizes[k], 1, 1)
            shapes[f"sa{level}.mlp_convs.{k}.bias"] = (sizes[k + 1],)
            shapes |= _norm(f"sa{level}.mlp_bns.{k}", sizes[k + 1])
    return shapes


def _dgcnn():
    shapes = _subspace("nrs", 2048, 64) | _classifier("linear", 2048, (6, 7), first_bias=False)
    for k, (a, b) in enumerate(((6, 64), (128, 64), (128, 128), (256, 256), (512, 1024)), start=1):
        shapes[f"conv{k}.0.weight"] = (b, a, 1, 1) if k < 5 else (b, a, 1)
        shapes |= _norm(f"conv{k}.1", b) | _norm(f"bn{k}", b)
    return shapes


@pytest.mark.parametrize(
    ("encoder", "shapes", "subspace"),
    [
        ("pointnet2", _pointnet2(), {"n_mul": 1, "n_per": 32}),
        ("dgcnn", _dgcnn(), {"n_mul": 1, "n_per": 64}),
    ],
)
def test_every_tensor_of_a_3d_checkpoint_finds_its_place(encoder, shapes, subspace):
    ours = create(encoder, 4, subspace=subspace)
    state = {name: torch.rand(shape) for name, shape in shapes.items()}
    d = ours.num_features
    state["nfl.mask" if encoder == "pointnet2" else "nrs.mask"] = _mask(d, 1)
    load_authors(ours, {f"module.{name}": value for name, value in state.items()})
    first = "sa1.mlp_convs.0.weight" if encoder == "pointnet2" else "conv1.0.weight"
    layer = ours.level1.layers[0] if encoder == "pointnet2" else ours.edge1
    assert torch.equal(layer.weight, state[first].flatten(1))
    last = "fc3.bias" if encoder == "pointnet2" else "linear3.bias"
    assert torch.equal(ours.head.classifier.bias, state[last])
    # One tensor less or more is not that network.
    with pytest.raises(ValueError, match=r"it lacks head\.classifier\.bias"):
        load_authors(ours, {k: v for k, v in state.items() if k != last})
    with pytest.raises(ValueError, match=r"stranger .* has no place"):
        load_authors(ours, state | {"stranger": torch.zeros(1)})


def test_a_checkpoint_of_another_shape_is_refused_whole():
    theirs = _Table()
    ours = TableNetwork(8, 3, n_mul=3, n_per=2, hidden=(12, 12))
    before = {key: value.clone() for key, value in ours.state_dict().items()}
    with pytest.raises(ValueError, match="Check n_mul"):
        load_authors(ours, theirs.state_dict())
    assert all(torch.equal(value, before[key]) for key, value in ours.state_dict().items())
