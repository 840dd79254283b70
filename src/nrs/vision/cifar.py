"""The paper's networks for 32×32 pictures: ResNet-20, ResNet-50 and Inception-v3.

Each plain, with squeeze-and-excitation, or with NRS in its place; the block stands at the end of
every residual branch, and after each of Inception's eleven modules.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from nrs._util.seeds import seeded
from nrs.vision.excite import NRSExcite, SEBlock

EXCITES: dict[str, Callable[[int], nn.Module]] = {
    "none": lambda channels: nn.Identity(),
    "se": SEBlock,
    "nrs": NRSExcite,
}


def cifar_network(
    name: str, num_classes: int = 10, *, excite: str = "none", seed: int | None = None
) -> nn.Module:
    """Make one of the networks.

    Parameters
    ----------
    name : {"resnet20", "resnet50", "inception_v3"}
    num_classes : int
    excite : {"none", "se", "nrs"}
        What weighs the channels.
    seed : int, optional
        The same seed gives the same weights.

    Examples
    --------
    >>> network = cifar_network("resnet20", 10, excite="nrs")
    >>> network(torch.randn(2, 3, 32, 32)).shape, sum(p.numel() for p in network.parameters())
    (torch.Size([2, 10]), 275834)
    """
    if name not in NETWORKS:
        raise ValueError(f"name must be one of {', '.join(NETWORKS)}, however: name={name!r}")
    if excite not in EXCITES:
        raise ValueError(f"excite must be one of {', '.join(EXCITES)}, however: excite={excite!r}")
    with seeded(seed):
        return NETWORKS[name](num_classes, EXCITES[excite])


class _Residual(nn.Module):
    """A residual branch, a shortcut, their sum and a ReLU."""

    def __init__(self, branch: nn.Module, shortcut: nn.Module) -> None:
        super().__init__()
        self.branch, self.shortcut = branch, shortcut

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.branch(x) + self.shortcut(x))


class _Network(nn.Module):
    """Features, global pooling, classifier."""

    def __init__(self, features: nn.Module, pool: nn.Module, classifier: nn.Module) -> None:
        super().__init__()
        self.features, self.pool, self.fc = features, pool, classifier

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(self.pool(self.features(x)).flatten(1))


class _Branches(nn.Module):
    """The outputs of several branches, one above the other."""

    def __init__(self, *branches: nn.Module) -> None:
        super().__init__()
        self.branches = nn.ModuleList(branches)

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([branch(x) for branch in self.branches], 1)


def _conv(
    inputs: int,
    outputs: int,
    kernel: int | tuple[int, int],
    stride: int = 1,
    padding: int | tuple[int, int] = 0,
    relu: bool = True,
) -> nn.Sequential:
    layers: list[nn.Module] = [
        nn.Conv2d(inputs, outputs, kernel, stride, padding, bias=False),
        nn.BatchNorm2d(outputs),
    ]
    return nn.Sequential(*layers, *([nn.ReLU(inplace=True)] if relu else []))


def _shortcut(inputs: int, outputs: int, stride: int) -> nn.Module:
    if stride == 1 and inputs == outputs:
        return nn.Identity()
    return _conv(inputs, outputs, 1, stride, relu=False)


def _basic(inputs: int, width: int, stride: int, excite: Callable[[int], nn.Module]) -> nn.Module:
    branch = nn.Sequential(
        *_conv(inputs, width, 3, stride, 1), *_conv(width, width, 3, 1, 1, relu=False),
        excite(width),
    )  # fmt: skip
    return _Residual(branch, _shortcut(inputs, width, stride))


def _bottleneck(
    inputs: int, width: int, stride: int, excite: Callable[[int], nn.Module]
) -> nn.Module:
    branch = nn.Sequential(
        *_conv(inputs, width, 1), *_conv(width, width, 3, stride, 1),
        *_conv(width, 4 * width, 1, relu=False), excite(4 * width),
    )  # fmt: skip
    return _Residual(branch, _shortcut(inputs, 4 * width, stride))


def _resnet(
    num_classes: int,
    excite: Callable[[int], nn.Module],
    block: Callable[..., nn.Module],
    widths: Sequence[int],
    depths: Sequence[int],
    expansion: int,
    pool: nn.Module,
) -> nn.Module:
    blocks: list[nn.Module] = [*_conv(3, widths[0], 3, 1, 1)]
    inputs = widths[0]
    for stage, (width, depth) in enumerate(zip(widths, depths, strict=True)):
        for number in range(depth):
            stride = 2 if stage > 0 and number == 0 else 1
            blocks.append(block(inputs, width, stride, excite))
            inputs = expansion * width
    return _Network(nn.Sequential(*blocks), pool, nn.Linear(inputs, num_classes))


def _resnet20(num_classes: int, excite: Callable[[int], nn.Module]) -> nn.Module:
    pool = nn.AdaptiveAvgPool2d(1)
    return _resnet(num_classes, excite, _basic, (16, 32, 64), (3, 3, 3), 1, pool)


def _resnet50(num_classes: int, excite: Callable[[int], nn.Module]) -> nn.Module:
    widths, depths = (64, 128, 256, 512), (3, 4, 6, 3)
    return _resnet(num_classes, excite, _bottleneck, widths, depths, 4, nn.AvgPool2d(4))


def _inception_a(inputs: int, pooled: int) -> nn.Module:
    return _Branches(
        _conv(inputs, 64, 1),
        nn.Sequential(_conv(inputs, 48, 1), _conv(48, 64, 5, padding=2)),
        nn.Sequential(
            _conv(inputs, 64, 1), _conv(64, 96, 3, padding=1), _conv(96, 96, 3, padding=1)
        ),
        nn.Sequential(nn.AvgPool2d(3, 1, 1), _conv(inputs, pooled, 3, padding=1)),
    )


def _inception_b(inputs: int) -> nn.Module:
    return _Branches(
        _conv(inputs, 384, 3, 2),
        nn.Sequential(_conv(inputs, 64, 1), _conv(64, 96, 3, padding=1), _conv(96, 96, 3, 2)),
        nn.MaxPool2d(3, 2),
    )


def _inception_c(inputs: int, width: int) -> nn.Module:
    def row(a: int, b: int) -> nn.Module:
        return _conv(a, b, (1, 7), padding=(0, 3))

    def column(a: int, b: int) -> nn.Module:
        return _conv(a, b, (7, 1), padding=(3, 0))

    return _Branches(
        _conv(inputs, 192, 1),
        nn.Sequential(_conv(inputs, width, 1), column(width, width), row(width, 192)),
        nn.Sequential(
            _conv(inputs, width, 1), column(width, width), row(width, width),
            column(width, width), row(width, 192),
        ),
        nn.Sequential(nn.AvgPool2d(3, 1, 1), _conv(inputs, 192, 1)),
    )  # fmt: skip


def _inception_d(inputs: int) -> nn.Module:
    return _Branches(
        nn.Sequential(_conv(inputs, 192, 1), _conv(192, 320, 3, 2)),
        nn.Sequential(
            _conv(inputs, 192, 1), _conv(192, 192, (1, 7), padding=(0, 3)),
            _conv(192, 192, (7, 1), padding=(3, 0)), _conv(192, 192, 3, 2),
        ),
        nn.AvgPool2d(3, 2),
    )  # fmt: skip


def _inception_e(inputs: int) -> nn.Module:
    def fork() -> nn.Module:
        return _Branches(
            _conv(384, 384, (1, 3), padding=(0, 1)), _conv(384, 384, (3, 1), padding=(1, 0))
        )

    return _Branches(
        _conv(inputs, 320, 1),
        nn.Sequential(_conv(inputs, 384, 1), fork()),
        nn.Sequential(_conv(inputs, 448, 1), _conv(448, 384, 3, padding=1), fork()),
        nn.Sequential(nn.AvgPool2d(3, 1, 1), _conv(inputs, 192, 1)),
    )


def _inception_v3(num_classes: int, excite: Callable[[int], nn.Module]) -> nn.Module:
    stem = nn.Sequential(
        _conv(3, 32, 3, padding=1), _conv(32, 32, 3, padding=1), _conv(32, 64, 3, padding=1),
        _conv(64, 80, 1), _conv(80, 192, 3),
    )  # fmt: skip
    modules = [
        (_inception_a(192, 32), 256), (_inception_a(256, 64), 288), (_inception_a(288, 64), 288),
        (_inception_b(288), 768),
        (_inception_c(768, 128), 768), (_inception_c(768, 160), 768),
        (_inception_c(768, 160), 768), (_inception_c(768, 192), 768),
        (_inception_d(768), 1280),
        (_inception_e(1280), 2048), (_inception_e(2048), 2048),
    ]  # fmt: skip
    blocks = [part for module, width in modules for part in (module, excite(width))]
    pool = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Dropout2d())
    return _Network(nn.Sequential(stem, *blocks), pool, nn.Linear(2048, num_classes))


NETWORKS: dict[str, Callable[[int, Callable[[int], nn.Module]], nn.Module]] = {
    "resnet20": _resnet20,
    "resnet50": _resnet50,
    "inception_v3": _inception_v3,
}
