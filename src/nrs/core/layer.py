"""The Neural Random Subspace layer (paper, Section 3)."""

from __future__ import annotations

import math
import operator
from numbers import Integral
from typing import Any

import torch
from torch import Tensor, nn

from nrs.core.compiled import compiled_stage
from nrs.core.context import as_leaf
from nrs.core.fold import FoldedNRS, folded_stage
from nrs.core.norm import bias_cancels, normalise, shift_of, track
from nrs.core.permutations import LAYOUTS, IndexModule, draw_index
from nrs.core.subspace_map import (
    as_autocast,
    check_dtype,
    check_formulation,
    check_input,
    map_rows,
    settled,
)

ACTIVATIONS = {"relu": torch.relu, "sigmoid": torch.sigmoid}


class NRS(IndexModule):
    """An ensemble of one-level oblique trees, each on its own random subset of the features.

    Expansion: M = n_mul·n_h² random permutations of the d input features fill C = n_mul·d
    channels of n_h×n_h cells. Aggregation: a grouped convolution whose kernel covers the cells,
    with n_per channels a group, then batch normalisation and ReLU.

    **Shape** input ``(..., in_features)``, output ``(..., n_mul * in_features)``. Statistics of
    the normalisation run over all leading dimensions.

    Parameters
    ----------
    in_features : number of features d.
    n_mul : expansion rate; the number of learners is ``n_mul * in_features``.
    n_per : channels a group; a learner reads ``n_per * n_h**2`` features. It must divide C.
    n_h : height and width of the cells of a channel.
    layout : ``"code"`` (the authors' code) or ``"paper"`` (Eq. 3), see
        :func:`nrs.core.permutations.draw_index`.
    depth : 1, or 2 for two 3×3 grouped convolutions, each with normalisation and activation;
        depth 2 needs ``n_h=5``.
    bias, norm : whether the convolution has a bias and is followed by batch normalisation.
    activation : ``"relu"``, ``"sigmoid"`` or None. ``norm=False, activation=None`` leaves the
        bare linear map.
    formulation : how the map is computed, see :func:`nrs.core.subspace_map`; all give the same
        numbers.
    seed : the same seed gives the same layer; None draws from torch's global generator.
    device, dtype : of the parameters, as of torch's own layers.

    Attributes
    ----------
    index : (C·n_h·n_h,) int64, a persistent buffer: the features in the order in which the
        convolution reads them. ``x[:, index].view(B, C, n_h, n_h)`` followed by
        ``Conv2d(C, C, n_h, groups=C // n_per)`` with `weight` and `bias` is the layer before its
        normalisation. Averages of buffers leave it as it is, see
        :class:`nrs.core.permutations.IndexModule`.
    weight, bias : shapes of that ``Conv2d``; `weight2`, `bias2` of the second one of depth 2.
    out_features : C.

    Notes
    -----
    A layer trained with the authors' code is loaded by
    ``layer.load_authors(checkpoint, prefix="nrs_layer.")``.

    In training mode the normalisation subtracts the batch mean, so that the bias cancels and its
    gradient is exactly zero; it counts through the running mean, as for any such pair.

    Examples
    --------
    >>> layer = NRS(16, n_mul=4, seed=0)
    >>> layer(torch.randn(32, 16)).shape
    torch.Size([32, 64])
    >>> layer.subspaces().shape                # 64 learners, nine features each
    torch.Size([64, 9])
    """

    index: Tensor
    weight: Tensor
    bias: Tensor | None
    norm: nn.BatchNorm1d | None
    weight2: Tensor
    bias2: Tensor | None
    norm2: nn.BatchNorm1d | None

    def __init__(
        self,
        in_features: int,
        n_mul: int = 1,
        n_per: int = 1,
        n_h: int = 3,
        *,
        layout: str = "code",
        depth: int = 1,
        bias: bool = True,
        norm: bool = True,
        activation: str | None = "relu",
        formulation: str = "auto",
        seed: int | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        in_features = _size("in_features", in_features)
        n_mul, n_per, n_h = _size("n_mul", n_mul), _size("n_per", n_per), _size("n_h", n_h)
        out_features = n_mul * in_features
        if out_features % n_per:
            raise ValueError(
                f"n_per must divide n_mul × in_features = {out_features}; got {n_per}. "
                f"Nearest divisors: {_nearest_divisors(out_features, n_per)}."
            )
        if layout not in LAYOUTS:
            raise ValueError(f"layout must be one of {LAYOUTS}; got {layout!r}")
        if depth not in (1, 2):
            raise ValueError(f"depth must be 1 or 2; got {depth!r}")
        if depth == 2 and n_h != 5:
            raise ValueError(
                f"depth=2 needs n_h=5 (two 3×3 convolutions reduce 5×5 cells to one); got n_h={n_h}"
            )
        if activation is not None and activation not in ACTIVATIONS:
            raise ValueError(
                f"activation must be None or one of {tuple(ACTIVATIONS)}; got {activation!r}"
            )
        check_formulation(formulation)
        self.in_features = in_features
        self.out_features = out_features
        self.n_mul, self.n_per, self.n_h = n_mul, n_per, n_h
        self.layout, self.depth = layout, depth
        self.activation, self.formulation = activation, formulation
        self.seed = None if seed is None else operator.index(seed)

        kernel = n_h if depth == 1 else 3
        where = {"device": device, "dtype": dtype}
        shape = (out_features, n_per, kernel, kernel)
        cells = torch.empty(out_features * n_h * n_h, dtype=torch.int64, device=device)
        # Drawn below.
        self.register_buffer("index", cells)
        for stage in range(1, depth + 1):
            suffix = "" if stage == 1 else "2"
            weight = nn.Parameter(torch.empty(shape, **where))  # type: ignore[arg-type]
            self.register_parameter("weight" + suffix, weight)
            values = nn.Parameter(torch.empty(out_features, **where)) if bias else None  # type: ignore[arg-type]
            self.register_parameter("bias" + suffix, values)
            normalise = nn.BatchNorm1d(out_features, **where) if norm else None  # type: ignore[arg-type]
            self.add_module("norm" + suffix, normalise)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the permutations and the weights anew, from `seed` or the global generator."""
        if self.index.is_meta:
            return
        generator = None
        if self.seed is not None:
            generator = torch.Generator().manual_seed(self.seed)
        drawn = draw_index(
            self.in_features, self.n_mul, self.n_h, layout=self.layout, generator=generator
        )
        self.put_index("index", drawn.to(self.index.device))
        for weight, bias, norm in self._stages():
            # The initialisation of torch.nn.Conv2d.
            bound = 1 / math.sqrt(weight[0].numel())
            for parameter in (weight, bias):
                if parameter is not None:
                    # Where the generator is, whatever torch's default device.
                    fresh = torch.empty(parameter.shape, dtype=parameter.dtype, device="cpu")
                    fresh.uniform_(-bound, bound, generator=generator)
                    _put(parameter, fresh)
            if norm is not None:
                norm.reset_parameters()

    def forward(self, x: Tensor) -> Tensor:
        """Tell what each learner answers for each row: (..., out_features).

        Parameters
        ----------
        x : (..., in_features), of the dtype of the weights.

        Raises
        ------
        ValueError
            If the last dimension is another, or a single row is to be normalised in training.
        TypeError
            If the input is not a tensor of that dtype.
        """
        if (traced := as_leaf(self, x)) is not None:
            return traced
        check_input(x, self.in_features)
        check_dtype(x, self.weight)
        rows = x.reshape(-1, self.in_features)
        self.check_statistics(x, rows.shape[0])
        if self.depth == 1:
            index = self.read_index().view(self._groups(), -1)
            h = self.stage(rows, index, self.weight, self.bias, self.norm)
        else:
            h = self._two_stages(rows)
        return h.view(*x.shape[:-1], self.out_features)

    def subspaces(self) -> Tensor:
        """Tell which features each group reads: (C / n_per, n_per·n_h²) int64."""
        return self.read_index().view(self._groups(), -1).clone()

    def fold(self) -> FoldedNRS:
        """Return an inference-only module with the normalisation folded into the map."""
        stages = [folded_stage(*stage) for stage in self._stages()]
        return FoldedNRS(
            self.in_features, self._stage_indices(), stages, self.activation, self.formulation
        )

    def load_authors(self, state: dict[str, Tensor], prefix: str = "") -> None:
        """Load the layer of a checkpoint of the authors' code.

        Parameters
        ----------
        state : the network's ``state_dict``.
        prefix : what stands before ``mask`` in it, e.g. ``"nrs_layer."``.
        """
        renamed = {"index": state[prefix + "mask"].long().reshape(-1)}
        for suffix, sequence in (("", "nrs"), ("2", "nrs2"))[: self.depth]:
            convolution, batch_norm = f"{prefix}{sequence}.0.", f"{prefix}{sequence}.1."
            for key, value in state.items():
                if key.startswith(convolution):
                    renamed[key[len(convolution) :] + suffix] = value
                elif key.startswith(batch_norm):
                    renamed[f"norm{suffix}." + key[len(batch_norm) :]] = value
        self.load_state_dict(renamed)

    def extra_repr(self) -> str:
        return (
            f"{self.in_features}, n_mul={self.n_mul}, n_per={self.n_per}, n_h={self.n_h}, "
            f"layout={self.layout!r}, depth={self.depth}, bias={self.bias is not None}, "
            f"activation={self.activation!r}, formulation={self.formulation!r}"
        )

    def _groups(self) -> int:
        return self.out_features // self.n_per

    def check_index(self, name: str, index: Tensor) -> None:
        """Refuse an index that does not read every feature equally often."""
        times = self.n_mul * self.n_h**2
        fits = bool(((index >= 0) & (index < self.in_features)).all()) and bool(
            (torch.bincount(index, minlength=self.in_features) == times).all()
        )
        if not fits:
            raise ValueError(
                f"The layer must read each of its {self.in_features} features {times} times, and "
                "its buffer 'index' does not. Averages of buffers (use_buffers=True) round "
                "integers. Load the index of the layer that was trained, or average parameters "
                "only."
            )

    def check_statistics(self, x: Tensor, n_rows: int) -> None:
        """Refuse a batch of one row in training mode: it has no batch statistics."""
        # At depth 2 the first normalisation averages nine cells of a row, but the second one.
        if self.training and self.norm is not None and n_rows == 1:
            raise ValueError(
                "a batch of one row has no batch statistics: in training mode give at least two "
                f"rows; got input of shape {tuple(x.shape)}. For inference call .eval() first."
            )

    def _stages(self) -> list[tuple[Tensor, Tensor | None, nn.BatchNorm1d | None]]:
        stages = [(self.weight, self.bias, self.norm)]
        if self.depth == 2:
            stages.append((self.weight2, self.bias2, self.norm2))
        return stages

    def stage(
        self,
        rows: Tensor,
        index: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        norm: nn.BatchNorm1d | None,
    ) -> Tensor:
        """Map, normalisation, activation of one grouped convolution whose output is one cell."""
        kernels = weight.reshape(index.shape[0], self.n_per, index.shape[1])
        if norm is not None and bias_cancels(norm):
            relu = self.activation == "relu"
            how = settled(self.formulation, rows, kernels.shape, kernels)
            if relu and how == "compiled" and _fits(norm, kernels, rows):
                return _compiled(rows, index, kernels, bias, norm)
            h = normalise(map_rows(rows, index, kernels, None, how), bias, norm, relu=relu)
            return h if relu else self._activate(h)
        h = map_rows(rows, index, kernels, bias, self.formulation)
        return self._activate(h if norm is None else norm(h))

    def _two_stages(self, rows: Tensor) -> Tensor:
        """Depth 2: nine 3×3 windows of the 5×5 cells share one kernel, then a second map."""
        first, second = self._stage_indices()
        groups, n_per = self._groups(), self.n_per
        kernels = self.weight.reshape(groups, 1, n_per, -1).expand(-1, 9, -1, -1)
        bias = None
        if self.bias is not None:
            bias = self.bias.view(groups, 1, n_per).expand(-1, 9, -1).reshape(-1)
        h = map_rows(rows, first, kernels.flatten(0, 1), bias, self.formulation)
        h = h.reshape(-1, groups, 9, n_per)
        if self.norm is not None:
            by_channel = h.transpose(2, 3).reshape(-1, self.out_features, 9)
            h = self.norm(by_channel).view(-1, groups, n_per, 9).transpose(2, 3)
        h = self._activate(h).reshape(-1, groups * 9 * n_per)
        return self.stage(h, second, self.weight2, self.bias2, self.norm2)

    def _stage_indices(self) -> list[Tensor]:
        """The subspaces of every stage; those of a second stage read the outputs of the first."""
        groups, n_per = self._groups(), self.n_per
        index = self.read_index()
        if self.depth == 1:
            return [index.view(groups, -1)]
        cells = index.view(groups, n_per, 5, 5)
        windows = cells.unfold(2, 3, 1).unfold(3, 3, 1)
        first = windows.permute(0, 2, 3, 1, 4, 5).reshape(groups * 9, n_per * 9)
        outputs = torch.arange(groups * 9 * n_per, device=index.device)
        second = outputs.view(groups, 9, n_per).transpose(1, 2).reshape(groups, n_per * 9)
        return [first, second]

    def _activate(self, h: Tensor) -> Tensor:
        return h if self.activation is None else ACTIVATIONS[self.activation](h)


def _fits(norm: nn.BatchNorm1d, kernels: Tensor, rows: Tensor) -> bool:
    """Whether one kernel can do the map and its normalisation: one dtype, and statistics."""
    return norm.weight.dtype == kernels.dtype and rows.shape[0] > 1


def _compiled(
    rows: Tensor, index: Tensor, kernels: Tensor, bias: Tensor | None, norm: nn.BatchNorm1d
) -> Tensor:
    """Map, normalisation with batch statistics and ReLU as one kernel."""
    shift = shift_of(norm, bias)
    h, mean, variance = compiled_stage(rows, index, kernels, norm.weight, shift, norm.eps)
    track(norm, mean, variance, bias, rows.shape[0])
    return as_autocast(h)


def _put(parameter: Any, values: Tensor) -> None:
    """Write values into a parameter, of which fully_shard leaves each process a part."""
    if hasattr(parameter, "device_mesh"):
        from torch.distributed.tensor import distribute_tensor

        values = distribute_tensor(
            values.to(parameter.device), parameter.device_mesh, parameter.placements
        )
    with torch.no_grad():
        parameter.copy_(values)


def _size(name: str, value: int) -> int:
    if not isinstance(value, Integral) or isinstance(value, bool):
        raise TypeError(f"{name} must be an integer; got {value!r}")
    if value < 1:
        raise ValueError(f"{name} must be at least 1; got {value}")
    return int(value)


def largest_divisor(number: int, most: int) -> int:
    """The largest divisor not above `most`: an n_per that any width allows.

    >>> largest_divisor(1024, 32), largest_divisor(1000, 32), largest_divisor(3, 32)
    (32, 25, 3)
    """
    return next(k for k in range(min(most, number), 0, -1) if number % k == 0)


def _nearest_divisors(number: int, wanted: int) -> str:
    small = [k for k in range(1, math.isqrt(number) + 1) if number % k == 0]
    divisors = {*small, *(number // k for k in small)}
    below = max((k for k in divisors if k < wanted), default=None)
    above = min((k for k in divisors if k > wanted), default=None)
    return " and ".join(str(k) for k in (below, above) if k is not None)
