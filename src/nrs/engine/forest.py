"""Loads the compiled engine and gives it arrays that it has checked.

The library reads and writes where it is told to. So everything about sizes, types and numbers of
rows, inputs and classes is checked here, at its border, and nowhere behind it.
"""

from __future__ import annotations

import ctypes
import functools
import math
import os
import platform
import queue
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from nrs._util.launch import FEW, check_count

# In the order of the numbers that the library knows them by.
LOSSES = ("softmax", "logistic", "squared")
# Inputs of a tile at most: the lanes of a vector. Fewer than so many are no tile.
LANES, MIN_TILE = 16, 4
# Floats of the members' activations that are kept from forward to backward: 256 MB. Of larger
# batches, such as a query of 20,000 documents, backward computes them again, one member at a time.
MAX_KEPT = 1 << 26
# Layers of a member that have a normalisation.
MAX_LAYERS = 16
_VERSION = 3
_FLOAT32, _INT64, _UINT8 = np.dtype(np.float32), np.dtype(np.int64), np.dtype(np.uint8)
_FORWARD, _LOSS, _BACKWARD = 1, 2, 4
# Rows that a thread predicts at least; a multiple of those that the library takes at once.
_THREAD_ROWS = 512
_SUFFIXES = {"win32": ".dll", "darwin": ".dylib"}
# The best first.
_LEVELS = ("avx512", "avx2")


@functools.cache
def _load() -> tuple[ctypes.CDLL | None, str]:
    """The library, and which instructions it uses; or None, and why there is none."""
    if platform.machine().lower() not in ("x86_64", "amd64"):
        return None, f"it is written for x86-64; this is {platform.machine()}"
    found = False
    for level in _LEVELS:
        path = _path(level)
        if not path.exists():
            continue
        found = True
        try:
            library = _declared(ctypes.CDLL(str(path)))
        except (OSError, AttributeError) as error:
            return None, f"it cannot be loaded: {error}"
        if library.nrs_version() != _VERSION:
            return None, "it was built for another version of nrs. Install nrs again."
        if library.nrs_runs_here():
            return library, level
    if found:
        return None, "this processor has no AVX2"
    return None, "it was not built: no compiler worked when nrs was installed"


def _path(level: str) -> Path:
    # Another build of the same sources, such as one with sanitizers.
    folder = os.environ.get("NRS_ENGINE_FOLDER") or Path(__file__).parent
    return Path(folder, f"engine-{level}{_SUFFIXES.get(sys.platform, '.so')}")


def _declared(library: ctypes.CDLL) -> ctypes.CDLL:
    """The library with the types of its functions."""
    count, address = ctypes.c_int64, ctypes.c_void_p
    library.nrs_version.restype = count
    library.nrs_runs_here.restype = ctypes.c_int
    for name, result, arguments in (
        ("columns_size", count, [address, count]),
        ("training_size", count, [address, count]),
        ("prediction_size", count, [address]),
        ("slopes_size", count, [address, count]),
        ("slopes", None, [address, address, count, count, address, address, address]),
        ("columns", None, [address, address, count, address]),
        ("train", None, [address, address, address, *[count] * 3, ctypes.c_int, address, count]),
        ("predict", None, [address, address, *[count] * 3, address, count, address, address]),
    ):
        function = getattr(library, f"nrs_{name}")
        function.restype, function.argtypes = result, arguments
    return library


@functools.cache
def instructions() -> tuple[str | None, str]:
    """The instruction set of the engine that trains and predicts here; or None, and why.

    The environment variable ``NRS_ENGINE=torch`` switches it off; it is read once.

    Examples
    --------
    >>> name, reason = instructions()
    >>> name in (None, "avx2", "avx512")
    True
    """
    if os.environ.get("NRS_ENGINE", "") == "torch":
        return None, "NRS_ENGINE=torch is set"
    library, said = _load()
    return (None, said) if library is None else (said, "")


def library() -> ctypes.CDLL | None:
    """The engine's library, or None where torch computes."""
    return None if instructions()[0] is None else _loaded()


def show_config() -> dict[str, str]:
    """Say which engine trains and predicts tables on the CPU, with which instructions, and why.

    Examples
    --------
    >>> sorted(show_config())
    ['engine', 'instructions', 'reason']
    """
    name, reason = instructions()
    if name is None:
        return {"engine": "torch", "instructions": "torch's own", "reason": reason}
    return {"engine": "compiled", "instructions": name, "reason": f"this processor has {name}"}


@dataclass(frozen=True)
class Reading:
    """Tiles of consecutive inputs and what each subspace reads of them.

    A tile is of features, or of bins or levels of one feature. A reader is a subspace that reads at
    least half of a tile, by weights that lie side by side; readers are ordered by member, then by
    tile. Inputs that are read one by one are columns: the features, some bins, and a zero.

    Parameters
    ----------
    kind : (tiles,) int32, 0 for features, 1 for bins, 2 for levels.
    start, length : (tiles,) int32, the first feature or that of the bins, and how many inputs.
    low, rate : (tiles, 16) float32, of the bins.
    first : (members · tiles + 1,) int64, where the readers of each begin.
    subspace, place, lanes : (readers,) int32: which subspace of its member, where its first weight
        is among the member's, and as bits which inputs of the tile it reads.
    lone_first : (members · subspaces + 1,) int64, where the other inputs of each subspace begin.
    lone_place, lone_column : int32, the place of their weights, and these inputs' columns.
    used : (members · subspaces,) int64, the places of each subspace before the blank ones.
    column_source, column_low, column_rate : (bins,) of the bins that are columns.
    levels : how many of these, the last ones, are levels.
    """

    kind: np.ndarray
    start: np.ndarray
    length: np.ndarray
    low: np.ndarray
    rate: np.ndarray
    first: np.ndarray
    subspace: np.ndarray
    place: np.ndarray
    lanes: np.ndarray
    lone_first: np.ndarray
    lone_place: np.ndarray
    lone_column: np.ndarray
    used: np.ndarray
    column_source: np.ndarray
    column_low: np.ndarray
    column_rate: np.ndarray
    levels: int

    @property
    def most(self) -> int:
        """The most readers of a member."""
        tiles = max(1, len(self.start))
        return int(np.diff(self.first[::tiles]).max(initial=0))

    @classmethod
    def of(
        cls,
        index: np.ndarray,
        features: int,
        source: np.ndarray,
        low: np.ndarray,
        rate: np.ndarray,
        levels: int,
        whole: np.ndarray | None = None,
    ) -> Reading:
        """Find the tiles of a forest.

        Parameters
        ----------
        index : (members, subspaces, size) int64: features, bins, and a last input that is blank.
        source, low, rate : (bins,) of the bins, of which the last are `levels`.
        whole : the index of all members, where these are a part of a forest: the tiles are those
            of the whole, so that a member's sums are the same in any part.

        Examples
        --------
        >>> index = np.array([[[0, 3, 4, 5, 6], [1, 3, 4, 5, 6], [0, 2, 7, 7, 7]]])
        >>> source, low, rate = np.array([2, 2, 2, 2]), np.arange(4.0), np.ones(4)
        >>> reading = Reading.of(index, 3, source, low, rate, 0)
        >>> reading.start.tolist(), reading.length.tolist(), reading.subspace.tolist()
        ([2], [4], [0, 1])
        >>> reading.lone_column.tolist(), reading.used.tolist()
        ([0, 1, 0, 2], [5, 5, 2])
        """
        members, subspaces, size = index.shape
        inputs = features + len(source) + 1
        used, read = _read(index, inputs - 1)
        every = (index, read) if whole is None else (whole, _read(whole, inputs - 1)[1])
        # Where another feature or kind of input begins.
        of_input = np.concatenate([np.full(features, -1), source, [-2]])
        of_input[inputs - 1 - levels : inputs - 1] += inputs
        begins, length, tile, lane = _tiles(*every, np.diff(of_input, prepend=-3) != 0)
        tile, lane, n_tiles = tile[index], lane[index], len(begins)
        in_tile = read & (tile >= 0)
        opens = in_tile.copy()
        opens[:, :, 1:] &= ~(
            in_tile[:, :, :-1]
            & (tile[:, :, 1:] == tile[:, :, :-1])
            & (lane[:, :, 1:] > lane[:, :, :-1])
        )
        # The readers that open at each of these places, and what they read.
        member, subspace, place = opens.nonzero()
        own = tile[opens]
        bits, firsts = np.left_shift(1, lane[in_tile]), np.flatnonzero(opens[in_tile])
        counts = np.diff(np.append(firsts, len(bits)))
        lanes = np.bitwise_or.reduceat(bits, firsts) if len(firsts) else firsts
        kept = 2 * counts >= length[own]
        read[in_tile] &= ~np.repeat(kept, counts)
        key = (member * n_tiles + own)[kept]
        order = np.argsort(key, kind="stable")
        own_place = np.arange(subspaces * size).reshape(1, subspaces, size)
        # Columns: the features, the bins that are read alone, and the zero.
        is_column = np.zeros(inputs, dtype=bool)
        is_column[index[read]] = True
        is_column[:features] = is_column[-1] = True
        extra = np.flatnonzero(is_column[features:-1])
        column = np.cumsum(is_column) - 1
        lone_place = np.broadcast_to(own_place, read.shape)[read]
        # Of the bins of each tile; the lanes beyond are 0.
        bins = begins[:, None] + np.arange(LANES) - features
        inside = (bins >= 0) & (np.arange(LANES) < length[:, None])
        edges = np.zeros((2, *bins.shape), np.float32)
        edges[:, inside] = np.stack([low, rate])[:, bins[inside]]
        return cls(
            kind=_whole(np.digitize(begins, [features, inputs - 1 - levels])),
            start=_whole(np.where(begins < features, begins, of_input[begins] % inputs)),
            length=_whole(length),
            low=edges[0],
            rate=edges[1],
            first=_starts(np.bincount(key, minlength=members * n_tiles)),
            subspace=_whole(subspace[kept][order]),
            place=_whole((subspace * size + place)[kept][order]),
            lanes=_whole(lanes[kept][order]),
            lone_first=_starts(read.sum(2).ravel()),
            lone_place=_whole(lone_place),
            lone_column=_whole(column[index[read]]),
            used=used.ravel().astype(np.int64),
            column_source=source[extra],
            column_low=low[extra],
            column_rate=rate[extra],
            levels=int((extra >= len(source) - levels).sum()),
        )


def _read(index: np.ndarray, blank: int) -> tuple[np.ndarray, np.ndarray]:
    """How many places of each subspace are used, before the blank ones; and which they are."""
    places = np.arange(1, index.shape[2] + 1)
    used = np.where(index != blank, places, 0).max(2)
    return used, places <= used[:, :, None]


def _tiles(
    index: np.ndarray, read: np.ndarray, other: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """First input and length of each tile; of each input its tile, or -1, and its lane.

    `other` says which inputs are of another kind or feature than the one before.
    """
    inputs = len(other)
    times = np.bincount(index[read], minlength=inputs)
    follows = read[:, :, 1:] & (index[:, :, 1:] == index[:, :, :-1] + 1)
    together = np.bincount(index[:, :, 1:][follows], minlength=inputs)
    # Most subspaces that read an input read the one before it too.
    joined = ~other & (together > 0) & (2 * together >= np.maximum(times, np.roll(times, 1)))
    chain = np.cumsum(~joined) - 1
    at, sizes = np.flatnonzero(~joined), np.bincount(chain)
    # Long chains are cut into tiles of about the same size.
    width = -(-sizes // -(-sizes // LANES))
    lane = (np.arange(inputs) - at[chain]) % width[chain]
    opens = lane == 0
    length = np.bincount(np.cumsum(opens) - 1)
    wide = length >= MIN_TILE
    number = np.where(wide, np.cumsum(wide) - 1, -1)
    return np.flatnonzero(opens)[wide], length[wide], number[np.cumsum(opens) - 1], lane


def _whole(array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(array, dtype=np.int32)


def _starts(counts: np.ndarray) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


class _Parameter(ctypes.Structure):
    _fields_ = [(name, ctypes.c_void_p) for name in ("value", "moment", "square", "average")]


class _Norm(ctypes.Structure):
    _fields_ = [
        ("scale", _Parameter), ("shift", _Parameter),
        *[(name, ctypes.c_void_p) for name in
          ("mean", "variance", "average_mean", "average_variance")],
    ]  # fmt: skip


class _Reading(ctypes.Structure):
    _fields_ = [
        *[(name, ctypes.c_int64) for name in ("tiles", "most", "bins", "levels")],
        *[(field.name, ctypes.c_void_p) for field in fields(Reading) if field.name != "levels"],
    ]  # fmt: skip


class _Forest(ctypes.Structure):
    _fields_ = [
        *[(name, ctypes.c_int64) for name in ("members", "size", "features", "outputs", "layers")],
        ("widths", ctypes.c_void_p), ("reading", _Reading), ("gain", ctypes.c_void_p),
        ("weight", _Parameter), ("norms", ctypes.c_void_p), ("hidden", ctypes.c_void_p),
        ("out_weight", _Parameter), ("out_bias", _Parameter), ("directions", ctypes.c_void_p),
    ]  # fmt: skip


class _Directions(ctypes.Structure):
    _fields_ = [(name, ctypes.c_void_p) for name in ("inputs", "units", "outputs")]


_COUNTS = ("members", "size", "features", "bins", "levels", "outputs", "layers", "inputs")


class _Folded(ctypes.Structure):
    _fields_ = [
        *[(name, ctypes.c_int64) for name in _COUNTS],
        *[(name, ctypes.c_void_p) for name in
          ("widths", "index", "source", "low", "rate", "weight", "shifts", "hidden", "out_weight",
           "out_bias")],
    ]  # fmt: skip


class _Settings(ctypes.Structure):
    _fields_ = [
        ("loss", ctypes.c_int64), ("capacity", ctypes.c_int64),
        *[(name, ctypes.c_double) for name in
          ("epsilon", "momentum", "beta1", "beta2", "tiny", "decay", "drop")],
        ("folds", ctypes.c_int64), ("sees", ctypes.c_void_p), ("share", ctypes.c_double),
    ]  # fmt: skip


class _Step(ctypes.Structure):
    _fields_ = [
        ("rows", ctypes.c_int64),
        *[(name, ctypes.c_void_p) for name in
          ("x", "columns", "classes", "targets", "weights", "fold", "pools", "places")],
        *[(name, ctypes.c_double) for name in ("rate", "correction1", "correction2", "averaging")],
        *[(name, ctypes.c_void_p) for name in ("outputs", "gradients", "losses")],
    ]  # fmt: skip


class _Addresses:
    """Checks arrays, keeps them alive and says where they are."""

    def __init__(self) -> None:
        self.kept: list[Any] = []

    def __call__(
        self, array: np.ndarray | None, shape: tuple[int, ...], dtype: Any = _FLOAT32
    ) -> int | None:
        if array is None:
            return None
        if array.dtype != dtype or array.shape != shape or not array.flags.c_contiguous:
            raise ValueError(
                f"the engine expects a contiguous array {shape} of {np.dtype(dtype)}; got "
                f"{array.shape} of {array.dtype}"
            )
        self.kept.append(array)
        return _where(array)

    def of(self, structures: Any) -> int:
        """Where an array of structures or addresses is."""
        self.kept.append(structures)
        return ctypes.addressof(structures)


def _where(array: np.ndarray) -> int:
    """The address of an array; its attribute `ctypes` takes three times as long."""
    address: int = array.__array_interface__["data"][0]
    return address


def _below(numbers: np.ndarray | None, end: int, what: str) -> None:
    """Refuse numbers of something outside 0 to before `end`."""
    if numbers is not None and numbers.size and (numbers.min() < 0 or numbers.max() >= end):
        raise ValueError(
            f"{what} must be from 0 to {end - 1}; got {numbers.min()} to {numbers.max()}"
        )


@dataclass(frozen=True)
class Shape:
    """What the members of a forest read, and how wide their layers are.

    Parameters
    ----------
    index : (K, G, F) int64, the inputs of each member's subspaces: features, bins, a zero.
    features : number of features.
    source, low, rate : (bins,) of the piecewise-linear encoding.
    levels : how many bins, the last ones, are levels.
    hidden : widths of the fully connected layers.
    outputs : of each member.
    whole : the index of all members, where these are a part of a forest.
    """

    index: np.ndarray
    features: int
    source: np.ndarray
    low: np.ndarray
    rate: np.ndarray
    levels: int
    hidden: tuple[int, ...]
    outputs: int
    whole: np.ndarray | None = None

    @property
    def widths(self) -> tuple[int, ...]:
        """Of all layers with a normalisation, the subspaces first."""
        return (self.index.shape[1], *self.hidden)

    @property
    def inputs(self) -> int:
        return self.features + len(self.source) + 1

    @functools.cached_property
    def reading(self) -> Reading:
        """What the subspaces read together."""
        bins = (self.source, self.low, self.rate, self.levels)
        return Reading.of(self.index, self.features, *bins, whole=self.whole)

    def fill(self, structure: Any, address: _Addresses) -> None:
        """Write what the library must know of it."""
        bins, counts = (len(self.source),), (self.features, self.levels, self.outputs, *self.hidden)
        if self.index.ndim != 3 or 0 in self.index.shape or min(counts, default=0) < 0:
            raise ValueError(f"a forest of index {self.index.shape} and widths {counts} is none")
        if self.levels > bins[0] or not 0 < len(self.widths) <= MAX_LAYERS or 0 in self.hidden:
            raise ValueError(f"the engine has at most {MAX_LAYERS} layers; got {self.widths}")
        if self.outputs < 1:
            raise ValueError("a forest must have an output")
        if self.source.shape != bins or self.low.shape != bins or self.rate.shape != bins:
            raise ValueError(f"bins have a source, low and rate each; got {bins} sources")
        _below(self.index, self.inputs, "inputs of subspaces")
        _below(self.whole, self.inputs, "inputs of subspaces")
        _below(self.source, self.features, "features of bins")
        widths = np.array(self.widths, dtype=np.int64)
        structure.members, _, structure.size = self.index.shape
        structure.features, structure.outputs = self.features, self.outputs
        structure.layers, structure.widths = len(widths), address(widths, widths.shape, np.int64)


class Parameter(NamedTuple):
    """A parameter of all members and what AdamW and averaging keep of it, updated in place."""

    value: np.ndarray
    moment: np.ndarray
    square: np.ndarray
    average: np.ndarray | None = None

    def structure(self, shape: tuple[int, ...], address: _Addresses) -> _Parameter:
        for array in self:
            if array is not None and not array.flags.writeable:
                raise ValueError("the engine updates parameters in place; got a read-only array")
        return _Parameter(*[address(array, shape) for array in self])


class Norm(NamedTuple):
    """A batch normalisation of all members."""

    scale: Parameter
    shift: Parameter
    mean: np.ndarray
    variance: np.ndarray
    average_mean: np.ndarray | None = None
    average_variance: np.ndarray | None = None

    def structure(self, units: int, address: _Addresses) -> _Norm:
        shape = (units,)
        pair = (self.scale.structure(shape, address), self.shift.structure(shape, address))
        return _Norm(*pair, *[address(array, shape) for array in self[2:]])


class Directions(NamedTuple):
    """Directions that monotone constraints give to inputs and units: 1, -1, or 0 for free ones.

    **Shape** inputs (K, G, F), multiplied by how many their subspace reads; units (K, width) of
    each layer with a normalisation; outputs (K, outputs), 0 for those that read all units.
    """

    inputs: np.ndarray
    units: Sequence[np.ndarray]
    outputs: np.ndarray

    def structure(self, shape: Shape, address: _Addresses) -> _Directions:
        k = len(shape.index)
        units = [
            address(one, (k, width)) for one, width in zip(self.units, shape.widths, strict=True)
        ]
        return _Directions(
            address(self.inputs, shape.index.shape),
            address.of((ctypes.c_void_p * len(units))(*units)),
            address(self.outputs, (k, shape.outputs)),
        )


@dataclass(frozen=True)
class Settings:
    """What does not change from step to step.

    Parameters
    ----------
    loss : one of `LOSSES`; None where the caller computes it.
    sees : (K, folds) bool, the folds each member may see.
    share : of a member's loss in that of the forest.
    decay, drop : weight decay of AdamW, and the share of units that are dropped.
    """

    loss: str | None
    sees: np.ndarray
    share: float
    decay: float = 0.0
    drop: float = 0.0
    epsilon: float = 1e-5
    momentum: float = 0.1
    beta1: float = 0.9
    beta2: float = 0.999
    tiny: float = 1e-8


@dataclass(slots=True)
class Step:
    """A batch and the rates of its step.

    Parameters
    ----------
    x : (rows, features) float32.
    y : (rows,) int64 classes of a softmax, else (rows, outputs) float32; None without a loss.
    weights, fold : (rows,) float32 and int64, or None.
    masks : for each layer with a normalisation the bits of a pool, 1 for a unit that is kept, and
        the place of the first; none without dropout.
    rate, count : learning rate, and the number of the step from 1 on.
    averaging : how far the moving average follows.
    """

    x: np.ndarray
    y: np.ndarray | None
    weights: np.ndarray | None
    fold: np.ndarray | None
    masks: Sequence[tuple[np.ndarray, int]]
    rate: float
    count: int
    averaging: float = 0.0


@dataclass(eq=False, repr=False)
class Training:
    """A forest that the engine trains: it updates the arrays of the parameters in place.

    A member goes through all steps of a call before the next one; each has numbers that depend on
    no other, and so neither on how many threads there are.

    Parameters
    ----------
    shape, settings : Shape, Settings
    gain, weight : (K, G, F)
    norms : of the subspaces and each hidden layer
    hidden : (K, width, width before) each
    out_weight, out_bias : (K, outputs, width), (K, outputs)
    threads : at most so many at once.
    directions : of monotone constraints, optional
    """

    shape: Shape
    settings: Settings
    gain: np.ndarray
    weight: Parameter
    norms: Sequence[Norm]
    hidden: Sequence[Parameter]
    out_weight: Parameter
    out_bias: Parameter
    threads: int = 1
    directions: Directions | None = None

    def __post_init__(self) -> None:
        self._library = _loaded()
        shape, widths = self.shape, self.shape.widths
        self.members = len(shape.index)
        self._address = address = _Addresses()
        self._forest = forest = _Forest()
        shape.fill(forest, address)
        self._fill_reading(forest.reading)
        if len(self.norms) != len(widths) or len(self.hidden) != len(widths) - 1:
            raise ValueError(f"{len(widths)} layers need as many norms; got {len(self.norms)}")
        k = self.members
        forest.gain = address(self.gain, shape.index.shape)
        forest.weight = self.weight.structure(shape.index.shape, address)
        of_norms = [
            norm.structure(k * w, address) for norm, w in zip(self.norms, widths, strict=True)
        ]
        forest.norms = address.of((_Norm * len(widths))(*of_norms))
        of_hidden = [
            one.structure((k, width, before), address)
            for one, before, width in zip(self.hidden, widths[:-1], widths[1:], strict=True)
        ]
        forest.hidden = address.of((_Parameter * len(of_hidden))(*of_hidden))
        forest.out_weight = self.out_weight.structure((k, shape.outputs, widths[-1]), address)
        forest.out_bias = self.out_bias.structure((k, shape.outputs), address)
        if self.directions is not None:
            forest.directions = address.of(self.directions.structure(shape, address))
        self._settings = self._fill_settings()
        # Grows with the batches.
        self._memory = np.empty(0, np.float32)
        self._kept: dict[int, tuple[int, int, np.ndarray]] = {}
        self._forest_address = ctypes.addressof(forest)

    def _fill_reading(self, filled: _Reading) -> None:
        reading = self.shape.reading
        filled.tiles, filled.most = len(reading.start), reading.most
        filled.bins, filled.levels = len(reading.column_source), reading.levels
        for field in fields(reading):
            if field.name != "levels":
                own = getattr(reading, field.name)
                setattr(filled, field.name, self._address(own, own.shape, own.dtype))

    def _fill_settings(self) -> _Settings:
        known, filled = self.settings, _Settings()
        if known.sees.shape[0] != self.members:
            raise ValueError(f"{self.members} members see {known.sees.shape} folds")
        for field in fields(known):
            if field.name not in ("loss", "sees"):
                setattr(filled, field.name, getattr(known, field.name))
        filled.loss = 0 if known.loss is None else LOSSES.index(known.loss)
        sees = np.ascontiguousarray(known.sees, dtype=np.uint8)
        filled.folds = sees.shape[1]
        filled.sees = self._address(sees, sees.shape, np.uint8)
        return filled

    def take(self, steps: Sequence[Step]) -> np.ndarray:
        """Take steps with the loss that the engine knows; returns what each gave, (steps, K)."""
        if self.settings.loss is None:
            raise ValueError("this loss is computed by the caller: use forward and backward")
        losses = np.empty((len(steps), self.members))
        address = _Addresses()
        numbered = [self._fill(*one, address) for one in enumerate(steps)]
        filled = (_Step * len(steps))(*numbered)
        for number, one in enumerate(filled):
            one.losses = _where(losses) + number * losses.strides[0]
        self._run(filled, _FORWARD | _LOSS | _BACKWARD, self._threads())
        return losses

    def forward(self, step: Step) -> np.ndarray:
        """The outputs of every member in training, (K, outputs, rows)."""
        filled = self._fill(0, step, address := _Addresses())
        outputs = np.empty((self.members, self.shape.outputs, len(step.x)), np.float32)
        filled.outputs = outputs.ctypes.data
        of_each = self._library.nrs_training_size(ctypes.addressof(self._forest), len(step.x))
        kept = of_each * self.members <= MAX_KEPT
        # Running statistics follow once.
        self._settings.momentum = self.settings.momentum if kept else 0.0
        self._run((_Step * 1)(filled), _FORWARD, self.members if kept else self._threads())
        # What the second call reads again.
        self._open = (filled, address, outputs.shape, kept)
        return outputs

    def backward(self, gradients: np.ndarray) -> None:
        """Finish the step of :meth:`forward`, given the gradients of the loss by its outputs."""
        filled, _, shape, kept = self._open
        filled.outputs = None
        filled.gradients = _Addresses()(gradients, shape)
        self._settings.momentum = self.settings.momentum
        if kept:
            self._run((_Step * 1)(filled), _BACKWARD, self.members)
        else:
            self._run((_Step * 1)(filled), _FORWARD | _BACKWARD, self._threads())
        del self._open

    def _columns(self, number: int, rows: int) -> int:
        """Where the columns of a step of a call go; new memory is slow to write to."""
        known, where, _ = self._kept.get(number, (0, 0, None))
        if known < rows:
            kept = _aligned(self._library.nrs_columns_size(self._forest_address, rows))
            where = _where(kept)
            self._kept[number] = (rows, where, kept)
        return where

    def _threads(self) -> int:
        return max(1, min(self.threads, self.members))

    def _run(self, steps: Any, phases: int, places: int) -> None:
        """Let threads take the members in turns, each in a place of its own in memory."""
        forest, settings = self._forest_address, ctypes.addressof(self._settings)
        self._settings.capacity = max(step.rows for step in steps)
        of_each = self._library.nrs_training_size(forest, self._settings.capacity)
        if len(self._memory) < of_each * places:
            self._memory = _aligned(of_each * places)
        begin, at = self._memory.ctypes.data, ctypes.addressof(steps)

        def train(first: int, last: int, place: int) -> None:
            self._library.nrs_train(
                forest, settings, at, len(steps), first, last, phases,
                begin + place * of_each * 4, of_each if places == self.members else 0,
            )  # fmt: skip

        if self._threads() == 1:
            train(0, self.members, 0)
            return
        free: queue.SimpleQueue[int] = queue.SimpleQueue()
        for place in range(places):
            free.put(place)

        def member(k: int) -> None:
            # In two calls a member finds what it left.
            place = k if places == self.members else free.get()
            train(k, k + 1, place)
            free.put(place)

        _each(member, range(self.members), self._threads())

    def _fill(self, number: int, step: Step, address: _Addresses) -> _Step:
        rows, settings = len(step.x), self.settings
        if rows < 2:
            raise ValueError(f"a batch must have two rows at least; got {rows}")
        if not (math.isfinite(step.rate) and step.count >= 1 and 0 <= step.averaging <= 1):
            raise ValueError(f"a step must have a rate and a number; got {step.rate}, {step.count}")
        filled = _Step(rows=rows, rate=step.rate, averaging=step.averaging)
        filled.correction1 = 1 - settings.beta1**step.count
        filled.correction2 = (1 - settings.beta2**step.count) ** 0.5
        filled.x = address(step.x, (rows, self.shape.features))
        filled.columns = self._columns(number, rows)
        self._library.nrs_columns(self._forest_address, filled.x, rows, filled.columns)
        filled.weights = address(step.weights, (rows,))
        if settings.sees.shape[1] > 1:
            if step.fold is None:
                raise ValueError("members that see some folds only need the fold of each row")
            filled.fold = address(step.fold, (rows,), _INT64)
            _below(step.fold, settings.sees.shape[1], "folds")
        self._fill_targets(filled, step, address)
        if settings.drop > 0:
            self._fill_masks(filled, step, address)
        return filled

    def _fill_targets(self, filled: _Step, step: Step, address: _Addresses) -> None:
        loss, rows = self.settings.loss, len(step.x)
        if loss is None:
            return
        if step.y is None:
            raise ValueError("a step must have targets")
        if loss == "softmax":
            filled.classes = address(step.y, (rows,), _INT64)
            _below(step.y, self.shape.outputs, "classes")
        else:
            targets = np.ascontiguousarray(step.y.T)
            filled.targets = address(targets, (self.shape.outputs, rows))

    def _fill_masks(self, filled: _Step, step: Step, address: _Addresses) -> None:
        units = self.members * len(step.x)
        for width, (pool, place) in zip(self.shape.widths, step.masks, strict=True):
            # A mask is read four bytes at a time.
            last = place + width * units + 16
            if place < 0 or last + 32 > 8 * pool.size:
                raise ValueError(f"a mask from {place} to {last} is not within {8 * pool.size}")
        pools = [address(pool, pool.shape, _UINT8) for pool, _ in step.masks]
        filled.pools = address.of((ctypes.c_void_p * len(pools))(*pools))
        places = [place for _, place in step.masks]
        filled.places = address.of((ctypes.c_int64 * len(places))(*places))


@dataclass(eq=False, repr=False)
class Predictor:
    """A folded forest: products, shifts and ReLU. It is immutable, and threads may share it.

    Parameters
    ----------
    shape : Shape
    weight : (K, G, F)
    shifts : (K · width,) of each layer
    hidden : (K, width, width before) of each layer but the first
    out_weight, out_bias : (K, outputs, width), (K, outputs)
    """

    shape: Shape
    weight: np.ndarray
    shifts: Sequence[np.ndarray]
    hidden: Sequence[np.ndarray]
    out_weight: np.ndarray
    out_bias: np.ndarray

    def __post_init__(self) -> None:
        self._library = _loaded()
        self._address = address = _Addresses()
        self._folded = folded = _Folded()
        shape, widths = self.shape, self.shape.widths
        shape.fill(folded, address)
        bins = (len(shape.source),)
        folded.bins, folded.levels, folded.inputs = bins[0], shape.levels, shape.inputs
        folded.index = address(shape.index, shape.index.shape, np.int64)
        folded.source = address(shape.source, bins, np.int64)
        folded.low, folded.rate = address(shape.low, bins), address(shape.rate, bins)
        k = self.members = len(shape.index)
        if len(self.shifts) != len(widths) or len(self.hidden) != len(widths) - 1:
            raise ValueError(f"{len(widths)} layers need as many shifts; got {len(self.shifts)}")
        folded.weight = address(self.weight, shape.index.shape)
        shifts = [address(one, (k * w,)) for one, w in zip(self.shifts, widths, strict=True)]
        folded.shifts = address.of((ctypes.c_void_p * len(shifts))(*shifts))
        hidden = [
            address(one, (k, width, before))
            for one, before, width in zip(self.hidden, widths[:-1], widths[1:], strict=True)
        ]
        folded.hidden = address.of((ctypes.c_void_p * len(hidden))(*hidden))
        folded.out_weight = address(self.out_weight, (k, shape.outputs, widths[-1]))
        folded.out_bias = address(self.out_bias, (k, shape.outputs))

    def __reduce__(self) -> tuple[Any, ...]:
        # Addresses are those of this process.
        return _restored, tuple(getattr(self, field.name) for field in fields(self))

    def outputs(
        self, x: np.ndarray, chosen: np.ndarray | None = None, threads: int = 1
    ) -> np.ndarray:
        """Outputs of all members, or of those of these numbers, (members, outputs, rows).

        Parameters
        ----------
        x : (rows, features) float32
        chosen : (members,) int64, optional
        threads : at most so many at once.
        """
        chosen = np.arange(self.members) if chosen is None else chosen
        address, rows, where = _Addresses(), len(x), ctypes.addressof(self._folded)
        data = address(x, (rows, self.shape.features))
        numbers = address(chosen, (len(chosen),), np.int64)
        _below(chosen, self.members, "members")
        found = np.empty((len(chosen), self.shape.outputs, rows), np.float32)
        size = self._library.nrs_prediction_size(where)

        def part(begin: int) -> None:
            memory = _aligned(size)
            self._library.nrs_predict(
                where, data, rows, begin, min(rows, begin + step), numbers, len(chosen),
                found.ctypes.data, memory.ctypes.data,
            )  # fmt: skip

        step = max(_THREAD_ROWS, -(-rows // max(1, threads)) // _THREAD_ROWS * _THREAD_ROWS)
        _each(part, range(0, rows, step), threads)
        return found

    def slopes(self, x: np.ndarray, gradients: np.ndarray) -> np.ndarray:
        """Gradients by the inputs, (directions, inputs, rows): features, bins, and a zero.

        Parameters
        ----------
        x : (rows, features) float32
        gradients : (directions, members, outputs, rows) float32, those of some numbers by the
            outputs of members.
        """
        address, rows, where = _Addresses(), len(x), ctypes.addressof(self._folded)
        many = len(gradients)
        data = address(x, (rows, self.shape.features))
        given = address(gradients, (many, self.members, self.shape.outputs, rows))
        found = np.empty((many, self.shape.inputs, rows), np.float32)
        memory = _aligned(self._library.nrs_slopes_size(where, many))
        self._library.nrs_slopes(
            where, data, rows, many, given, found.ctypes.data, memory.ctypes.data
        )
        return found


def count_threads(n_jobs: int | None) -> int:
    """Threads that `n_jobs` allows: None is one, -1 all cores.

    Raises
    ------
    ValueError
        If they are many more than the cores.
    """
    if n_jobs == 1:
        return 1
    from joblib import effective_n_jobs

    wanted = effective_n_jobs(n_jobs)
    if wanted > FEW:
        check_count(wanted, "n_jobs")
    found: int = wanted
    return found


def _restored(*made_of: Any) -> Predictor | None:
    """A predictor where the engine is, and nothing elsewhere."""
    return None if _load()[0] is None else Predictor(*made_of)


def _loaded() -> ctypes.CDLL:
    library, reason = _load()
    if library is None:
        raise RuntimeError(f"the compiled engine cannot be used: {reason}")
    return library


def _aligned(size: int) -> np.ndarray:
    """So many floats, from a multiple of 64 bytes on."""
    memory = np.empty(size + 16, np.float32)
    begin = -memory.ctypes.data % 64 // 4
    return memory[begin : begin + size]


def _each(function: Callable[[int], None], items: range, threads: int) -> None:
    """Call a function for each item; the threads are gone afterwards."""
    if threads == 1 or len(items) < 2:
        for item in items:
            function(item)
        return
    with ThreadPoolExecutor(min(threads, len(items))) as pool:
        for _ in pool.map(function, items):
            pass
