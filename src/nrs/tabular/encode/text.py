"""Free text: words, pairs of words and pieces of words, as main directions of their TF-IDF.

A column of strings is text if most cells differ and hold several words; see :func:`is_text`.
Nothing is learned from the target.

Tokens are known by polynomial hashes of their characters modulo 2⁶⁴. They are sums and products of
integers, which ONNX computes exactly, and no list of words has to be saved. A character counts as
its lower case. One that is neither letter nor digit, or that training did not have, ends a word.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from scipy.sparse import csr_matrix, hstack, vstack
from sklearn.utils.extmath import randomized_svd

from nrs.tabular.encode.category import CategoryStatistics
from nrs.tabular.encode.column_encoder import ColumnEncoder, Summary
from nrs.tabular.encode.columns import Column

if TYPE_CHECKING:
    from nrs.tabular.export.graph import Graph
    from nrs.tabular.types import Json

# What makes a column text: at least so many of its cells differ, and they have so many words and
# characters on average. Names have one or two words.
MIN_SHARE, MIN_WORDS, MIN_CHARACTERS = 0.5, 3, 20
# A word begins after a space; without spaces two characters of such a script are about a word.
_WORD = re.compile(r"(?<!\S)\W?[^\W\d_]{2,}|[\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff]{2}")
# Texts that are looked at for it, and different long texts beyond which they are not counted.
MAX_LOOKED_AT, MAX_COUNTED = 1_000, 100_000

# Directions; at most one for so many texts that they are learned from.
MAX_DIRECTIONS, MIN_TEXTS = 384, 4
# Words and pairs of words, and pieces, that are known: those of most texts, at least of two.
MAX_TOKENS = 5_000
PIECE_SIZES = (3, 4, 5)
# Pieces as loud as words were worse on descriptions of packages.
PIECE_WEIGHT = np.float32(0.5)
# What tokens are learned from: texts and their characters.
MAX_TEXTS, MAX_LEARNED = 20_000, 4_000_000
# A text is read up to here.
MAX_LENGTH = 10_000
# Characters that are hashed together.
CHUNK = 1 << 18
# Directions of which texts have less than this, relative to the first, are rounding errors.
MIN_STRENGTH = 1e-4

# Of the hash: odd, so that it has an inverse.
BASE, PAIR, EDGE = 0x9E3779B97F4A7C15, 0x94D049BB133111EB, 0xBF58476D1CE4E5B9
_TURNS = 1 << 64


def is_text(texts: Collection[str], n_cells: int, max_levels: int = 64) -> bool:
    """Whether the different texts of so many cells are free text, and not levels of a category.

    Examples
    --------
    >>> notes = [f"the parcel of customer {n} came late" for n in range(90)]
    >>> is_text(notes, n_cells=100), is_text(notes, n_cells=1000)
    (True, False)
    >>> is_text([f"customer {n}" for n in range(90)], n_cells=90)
    False
    """
    if len(texts) <= max_levels or len(texts) < MIN_SHARE * n_cells:
        return False
    # By their order: however they were counted, the same ones are looked at.
    some = [text[:MAX_LENGTH] for text in sorted(texts)[:: 1 + len(texts) // MAX_LOOKED_AT]]
    long = sum(map(len, some)) >= MIN_CHARACTERS * len(some)
    return long and sum(len(_WORD.findall(text)) for text in some) >= MIN_WORDS * len(some)


@dataclass
class TextStatistics(CategoryStatistics):
    """Rows of each text of a column of strings.

    The kind "text" is what the user says; with "string" the cells decide whether they are free text
    or categories.
    """

    # Cells that are not counted by their text any more: too many long ones differ.
    uncounted: int = 0
    # Whether a categorical dtype says that they are categories.
    coded: bool = False

    def add(self, column: Column) -> Self:
        self.coded |= column.coded
        return super().add(column)

    def merge(self, other: CategoryStatistics) -> None:
        if isinstance(other, TextStatistics):
            self.coded |= other.coded
            self.uncounted += other.uncounted
        super().merge(other)

    def _limit(self, counts: Mapping[str, int]) -> None:
        text = self.kind == "text" or self.uncounted > 0
        if len(self.counts) > MAX_COUNTED and not text:
            text = not self.coded and is_text(counts, len(counts), max_levels=0)
        if text and (self.uncounted or len(self.counts) > MAX_COUNTED):
            self.uncounted += self.counts.total()
            self.counts.clear()
        else:
            super()._limit(counts)

    def is_text(self, max_levels: int = 64) -> bool:
        """Whether the cells are free text."""
        if self.kind == "text" or self.uncounted:
            return True
        if self.coded or self.held != {"text"}:
            return False
        return is_text(self.counts, self.counts.total(), max_levels)

    @property
    def seen(self) -> int:
        return self.uncounted + self.counts.total()

    def encoder(self, scale: str, max_levels: int, sample: Column) -> ColumnEncoder:
        if not self.is_text(max_levels):
            return super().encoder(scale, max_levels, sample)
        if not self.seen:
            return TextEncoder(absent=1.0)
        found = learn([sample.levels[place] for place in np.unique(sample.values) if place >= 0])
        found.missing |= self.missing > 0
        found.absent = self.missing / (self.missing + self.seen)
        return found

    def summary(self) -> Summary:
        if not self.is_text():
            return super().summary()._replace(kind="category")
        different = f"{len(self.counts):,}" if self.counts else f"over {MAX_COUNTED:,}"
        return Summary(self.missing, self.seen, f"{different} different texts", "text")

    def state(self) -> list[object]:
        return [*super().state(), self.uncounted, self.coded]

    def restore(self, state: list[Any]) -> None:
        *counted, self.uncounted, self.coded = state
        super().restore(counted)


@dataclass
class TextEncoder(ColumnEncoder):
    """How far a text goes in each main direction of the training texts, standardised.

    A cell without a known token is 0 everywhere. The last feature is there if training had cells
    without a word; it is 1 in those. Arrays are base64 of little-endian bytes: a header of many
    numbers would be slow to read.
    """

    # Characters of words in training, ascending.
    alphabet: str = ""
    # Hashes of words and pairs of words, and of pieces: int64, ascending.
    words: str = ""
    pieces: str = ""
    # How much a token counts, all words before all pieces: float32.
    rarity: str = ""
    # (tokens, directions) int8; the factor of each direction, and its mean after that: float32.
    directions: str = ""
    factor: str = ""
    center: str = ""
    missing: bool = False

    # A tree would cut directions into bins; sums of many of them tell more.
    binned = False

    @cached_property
    def features(self) -> list[str]:
        own = [f" (text {number})" for number in range(1, 1 + len(self.factors))]
        return own + [" (missing)"] * self.missing

    @cached_property
    def factors(self) -> np.ndarray:
        return unpack(self.factor, "<f4")

    @cached_property
    def centers(self) -> np.ndarray:
        return unpack(self.center, "<f4")

    @cached_property
    def vocabularies(self) -> list[np.ndarray]:
        """Hashes of words and pairs, and of pieces."""
        return [unpack(self.words, "<i8"), unpack(self.pieces, "<i8")]

    @cached_property
    def rarities(self) -> list[np.ndarray]:
        """How much each of them counts."""
        return np.split(unpack(self.rarity, "<f4"), [len(self.vocabularies[0])])

    @cached_property
    def matrix(self) -> np.ndarray:
        """The directions, (tokens, directions) int8."""
        return unpack(self.directions, "|i1").reshape(-1, max(1, len(self.factors)))

    @cached_property
    def _projection(self) -> np.ndarray:
        return self.matrix.astype(np.float32)

    @cached_property
    def _codes(self) -> np.ndarray:
        return code_table(self.alphabet)

    def write(self, column: Column, out: np.ndarray, fold: np.ndarray | None = None) -> None:
        own, order = len(self.factors), np.argsort(column.values, kind="stable")
        ordered = column.values[order]
        for part in chunks(column.levels):
            tokens = Tokens([column.levels[place] for place in part], self._codes)
            weights = weigh(tokens, self.vocabularies, self.rarities)
            features = np.zeros((len(part), out.shape[1]), dtype=np.float32)
            if own:
                # A sparse product adds up row by row: no row depends on those next to it.
                known = np.diff(weights.indptr) > 0
                features[known, :own] = (weights @ self._projection * self.factors)[known]
                features[known, :own] -= self.centers
            if self.missing:
                features[:, -1] = ~tokens.has_words
            # The rows that hold these texts.
            first, end = np.searchsorted(ordered, (part.start, part.stop))
            out[order[first:end]] = features[ordered[first:end] - part.start]
        if self.missing:
            out[column.missing(), -1] = 1.0

    def unusual(self, column: Column) -> tuple[int, int]:
        known = np.zeros(len(column.levels) + 1, dtype=bool)
        for part in chunks(column.levels):
            tokens = Tokens([column.levels[place] for place in part], self._codes)
            for (row, token), keys in zip(tokens.kinds, self.vocabularies, strict=True):
                known[part.start + row[find(keys, token) < len(keys)]] = True
        return 0, int((~known[column.values]).sum())

    def onnx_schema(self) -> Json:
        return {"type": "string", "missing": ""}

    def onnx_cells(self, column: Column) -> np.ndarray:
        return np.asarray(np.array([*column.levels, ""], dtype=object)[column.values])

    def to_onnx(self, graph: Graph, value: str) -> str:
        """Add the same hashes and sums; onnxruntime cuts a text into characters."""
        codes = _onnx_codes(graph, value, self.alphabet, self._codes)
        inside = graph.op("Not", graph.op("Equal", codes, graph.constant(np.int64(0))))
        n_rows, axis = graph.op("Shape", value, end=1), graph.constant(np.array([1]))
        zero, features = graph.constant(np.float32(0)), []
        if len(self.factors):
            found = (_onnx_words(graph, codes, inside), _onnx_pieces(graph, codes, inside))
            blocks = [
                _onnx_weights(graph, n_rows, tokens, keys, rarity)
                for tokens, keys, rarity in zip(
                    found, self.vocabularies, self.rarities, strict=True
                )
                if len(keys)
            ]
            # Pieces are never missing, since any word has some.
            blocks[-1] = graph.op("Mul", blocks[-1], graph.constant(PIECE_WEIGHT))
            weights = graph.concat(blocks)
            own = graph.op("MatMul", weights, graph.cast(graph.constant(self.matrix), np.float32))
            own = graph.op("Mul", own, graph.constant(self.factors))
            own = graph.op("Sub", own, graph.constant(self.centers))
            known = graph.op("Greater", graph.op("ReduceMax", weights, axis), zero)
            features.append(graph.op("Where", known, own, zero))
        if self.missing:
            has_words = graph.op("ReduceMax", graph.cast(inside, np.float32), axis)
            features.append(graph.op("Sub", graph.constant(np.float32(1)), has_words))
        return graph.concat(features)


def learn(texts: Sequence[str]) -> TextEncoder:
    """Learn tokens and directions from different texts.

    Examples
    --------
    >>> fruit = ("a red apple", "a green pear", "a yellow lemon")
    >>> learn([f"{one} number {n}" for n in range(8) for one in fruit]).features
    [' (text 1)', ' (text 2)', ' (text 3)', ' (text 4)', ' (text 5)', ' (text 6)']
    """
    n_characters = sum(min(len(text), MAX_LENGTH) for text in texts)
    texts = texts[:: 1 + max(len(texts) // MAX_TEXTS, n_characters // MAX_LEARNED)]
    seen = set().union(*(text[:MAX_LENGTH] for text in texts))
    # A letter in upper case may yet come in lower case, and the other way round.
    both = {case for one in filter(str.isalnum, seen) for case in (one, one.lower(), one.upper())}
    alphabet = "".join(sorted(case for case in both if len(case) == 1))
    codes = code_table(alphabet)
    parts = [Tokens([texts[place] for place in part], codes) for part in chunks(texts)]
    vocabularies, rarities = [], []
    for kind in range(2):
        tokens = np.concatenate([np.empty(0, np.int64), *(one.by_text(kind) for one in parts)])
        keys, counts = np.unique(tokens, return_counts=True)
        most = np.lexsort((keys, -counts))[:MAX_TOKENS]
        kept = np.sort(most[counts[most] > 1])
        vocabularies.append(keys[kept])
        rarities.append((1 + np.log((1 + len(texts)) / (1 + counts[kept]))).astype(np.float32))
    encoder = TextEncoder(missing=not all(one.has_words.all() for one in parts), alphabet=alphabet)
    n_directions = min(MAX_DIRECTIONS, len(texts) // MIN_TEXTS, sum(map(len, vocabularies)))
    if not n_directions:
        return encoder
    weights = csr_matrix(vstack([weigh(one, vocabularies, rarities) for one in parts]))
    _, strength, found = randomized_svd(weights, n_directions, n_iter=2, random_state=0)
    found = found[strength > MIN_STRENGTH * strength[0]]
    matrix = np.rint(found * (127 / np.abs(found).max(1, keepdims=True))).astype(np.int8).T
    own = weights @ matrix.astype(np.float32)
    spread = own.std(0, dtype=np.float64)
    # Where all texts are alike in a direction, only their differences of rounding would be left.
    varies = spread > MIN_STRENGTH
    factor = 1 / spread[varies]
    encoder.words, encoder.pieces = (pack(keys, "<i8") for keys in vocabularies)
    encoder.rarity = pack(np.concatenate(rarities), "<f4")
    encoder.directions = pack(matrix[:, varies], "|i1")
    encoder.factor = pack(factor, "<f4")
    encoder.center = pack(own.mean(0, dtype=np.float64)[varies] * factor, "<f4")
    return encoder


class Tokens:
    """Hashes of the tokens of texts, with the text of each.

    Attributes
    ----------
    kinds : two pairs of arrays
        Texts and hashes of words and pairs of words, and of pieces; in each by text.
    has_words : (n_texts,) bool
    """

    def __init__(self, texts: Sequence[str], codes: np.ndarray) -> None:
        # A separator at both ends, so that nothing reaches from one text into the next.
        joined = "".join(f" {text[:MAX_LENGTH]} " for text in texts)
        points = np.frombuffer(joined.encode("utf-32-le", "surrogatepass"), dtype="<u4")
        lengths = [2 + min(len(text), MAX_LENGTH) for text in texts]
        row, code = (
            np.repeat(np.arange(len(texts)), lengths),
            codes[points.clip(max=len(codes) - 1)],
        )
        inside = code != 0
        self.n_texts = len(texts)
        self.has_words = np.bincount(row[inside], minlength=len(texts)) > 0
        self.kinds = (_words(row, code, inside), _pieces(row, code, inside))

    def by_text(self, kind: int) -> np.ndarray:
        """The hashes of each text, each once."""
        row, token = self.kinds[kind]
        order = np.lexsort((token, row))
        row, token = row[order], token[order]
        first = np.ones(len(row), dtype=bool)
        first[1:] = (np.diff(row) > 0) | (token[1:] != token[:-1])
        return token[first]


def _words(row: np.ndarray, code: np.ndarray, inside: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Texts and hashes of words, from where one begins to where it ends, and of pairs of them."""
    before = np.flatnonzero(inside[1:] & ~inside[:-1])
    last = np.flatnonzero(inside[:-1] & ~inside[1:])
    power, inverse = powers(len(code))
    sums = np.cumsum(code * power)
    word = (sums[last] - sums[before]) * inverse[before]
    own = row[last]
    together = own[1:] == own[:-1]
    pair = (word[:-1] * np.uint64(PAIR) + word[1:])[together]
    tokens = np.concatenate([word, pair]).view(np.int64)
    return np.concatenate([own, own[1:][together]]), tokens


def _pieces(row: np.ndarray, code: np.ndarray, inside: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Texts and hashes of a few characters in a row, of which the ends may be separators."""
    edged, power = np.where(inside, code, np.uint64(EDGE)), powers(max(PIECE_SIZES))[0]
    rows, tokens = [], []
    for size in PIECE_SIZES:
        n_places = max(0, len(code) - size + 1)
        whole, token = np.ones(n_places, dtype=bool), np.zeros(n_places, dtype=np.uint64)
        for k in range(size):
            token += edged[k : k + n_places] * power[k]
            if 0 < k < size - 1:
                whole &= inside[k : k + n_places]
        rows.append(row[1 : 1 + n_places][whole])
        tokens.append(token[whole])
    return np.concatenate(rows), np.concatenate(tokens).view(np.int64)


def weigh(
    tokens: Tokens, vocabularies: Sequence[np.ndarray], rarities: Sequence[np.ndarray]
) -> csr_matrix:
    """TF-IDF of words and of pieces, each of length one, then all together: (texts, tokens)."""
    blocks = []
    for (row, token), keys, rarity in zip(tokens.kinds, vocabularies, rarities, strict=True):
        place = find(keys, token)
        known = place < len(keys)
        shape, ones = (tokens.n_texts, len(keys)), np.ones(known.sum(), dtype=np.float32)
        block = csr_matrix((ones, (row[known], place[known])), shape=shape)
        block.data = (1 + np.log(block.data)) * rarity[block.indices]
        of_row = np.repeat(np.arange(tokens.n_texts), np.diff(block.indptr))
        block.data /= np.sqrt(np.bincount(of_row, block.data**2, tokens.n_texts))[of_row]
        blocks.append(block)
    blocks[1] = blocks[1] * PIECE_WEIGHT
    return csr_matrix(hstack(blocks), dtype=np.float32)


def find(keys: np.ndarray, tokens: np.ndarray) -> np.ndarray:
    """The place of each token among ascending keys; past the last where it is none of them."""
    place = np.searchsorted(keys, tokens)
    right = np.append(keys, 0)[place] == tokens
    return np.where(right & (place < len(keys)), place, len(keys))


def chunks(texts: Sequence[str]) -> Iterator[range]:
    """Texts of about as many characters as are hashed together."""
    first = size = 0
    for place, text in enumerate(texts):
        size += 2 + min(len(text), MAX_LENGTH)
        if size >= CHUNK:
            yield range(first, place + 1)
            first, size = place + 1, 0
    if first < len(texts):
        yield range(first, len(texts))


def code_table(alphabet: str) -> np.ndarray:
    """The code of each code point by which it is hashed: uint64, 0 if it ends a word."""
    codes = np.zeros(2 + max(map(ord, alphabet), default=0), dtype=np.uint64)
    for character in alphabet:
        mixed = (ord(character.lower()[0]) + 1) * BASE % _TURNS
        # Characters next to each other get codes that have nothing in common (SplitMix64).
        mixed = (mixed ^ mixed >> 30) * EDGE % _TURNS
        mixed = (mixed ^ mixed >> 27) * PAIR % _TURNS
        codes[ord(character)] = mixed ^ mixed >> 31
    return codes


def powers(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Powers 0, 1, … of the hash's base, and 1, 2, … of its inverse: (n,) uint64 each."""
    both = np.full((2, n), [[BASE], [pow(BASE, -1, _TURNS)]], dtype=np.uint64)
    both[0, :1] = 1
    power, inverse = np.cumprod(both, axis=1)
    return power, inverse


def pack(array: np.ndarray, dtype: str) -> str:
    """An array as text; see :func:`unpack`."""
    return base64.b64encode(np.ascontiguousarray(array, dtype=dtype).tobytes()).decode()


def unpack(text: str, dtype: str) -> np.ndarray:
    """The flat array that a text stands for.

    Examples
    --------
    >>> unpack(pack(np.arange(3), "<i8"), "<i8")
    array([0, 1, 2])
    """
    return np.frombuffer(base64.b64decode(text, validate=True), dtype=dtype)


def _onnx_codes(graph: Graph, value: str, alphabet: str, codes: np.ndarray) -> str:
    """The code of each character of (rows, 1) texts, with a separator at both ends."""
    split = {"mark": 0, "pad_value": "", "separators": [""], "mincharnum": 1}
    characters = graph.op("Tokenizer", value, domain="com.microsoft", **split)
    of_each = codes[[ord(character) for character in alphabet]].view(np.int64).tolist()
    lookup = {"keys_strings": list(alphabet), "values_int64s": of_each, "default_int64": 0}
    found = graph.op("LabelEncoder", characters, domain="ai.onnx.ml", **lookup)
    found = graph.op("Squeeze", found, graph.constant(np.array([1])))
    found = _onnx_slice(graph, found, 0, MAX_LENGTH)
    return graph.op("Pad", found, graph.constant(np.array([0, 1, 0, 1])))


def _onnx_slice(graph: Graph, value: str, first: int, end: int, axis: int = 1) -> str:
    ends = (graph.constant(np.array([one])) for one in (first, end, axis))
    return graph.op("Slice", value, *ends)


_END = np.iinfo(np.int64).max


def _onnx_words(graph: Graph, codes: str, inside: str) -> tuple[str, str, str]:
    """As :func:`_words`: texts, hashes, and which are tokens."""
    power, inverse = (one.view(np.int64) for one in powers(MAX_LENGTH + 2))
    length = graph.op("Shape", codes, start=1)
    zero = graph.constant(np.array([0]))
    power_here = graph.op("Slice", graph.constant(power), zero, length)
    sums = graph.op("CumSum", graph.op("Mul", codes, power_here), graph.constant(np.int64(1)))
    left, right = _onnx_slice(graph, inside, 0, -1), _onnx_slice(graph, inside, 1, _END)
    ends = []
    for one, other in ((right, left), (left, right)):
        mask = graph.op("And", one, graph.op("Not", other))
        # The n-th beginning and the n-th end are those of one word.
        ends.append(graph.op("Transpose", graph.op("NonZero", mask), perm=[1, 0]))
    before, last = (graph.op("GatherND", sums, one) for one in ends)
    row, place = (graph.reshape(graph.columns(ends[0], [k]), -1) for k in (0, 1))
    factor = graph.op("Gather", graph.constant(inverse), place)
    word = graph.op("Mul", graph.op("Sub", last, before), factor)
    (row_1, row_2), (word_1, word_2) = (
        (_onnx_slice(graph, one, 0, -1, 0), _onnx_slice(graph, one, 1, _END, 0))
        for one in (row, word)
    )
    scaled = graph.op("Mul", word_1, graph.constant(np.array(PAIR, np.uint64).view(np.int64)))
    pair = graph.op("Add", scaled, word_2)
    same = graph.op("Equal", row_1, row_2)
    every = graph.op("Equal", row, row)
    joined = [
        graph.op("Concat", *parts, axis=0) for parts in ((row, row_2), (word, pair), (every, same))
    ]
    return joined[0], joined[1], joined[2]


def _onnx_pieces(graph: Graph, codes: str, inside: str) -> tuple[str, str, str]:
    """As :func:`_pieces`: texts, hashes, and which are tokens."""
    edge = graph.constant(np.array(EDGE, np.uint64).view(np.int64))
    edged, power = graph.op("Where", inside, codes, edge), powers(max(PIECE_SIZES))[0]
    # All windows have a place for each character: what reaches past the end is no token.
    width = max(PIECE_SIZES) - 1
    pads = graph.constant(np.array([0, 0, 0, width]))
    edged, inside_ = graph.op("Pad", edged, pads), graph.cast(inside, np.int64)
    inside_ = graph.op("Pad", inside_, pads)
    windows = [_onnx_slice(graph, edged, k, k - width or _END) for k in range(width + 1)]
    within = [_onnx_slice(graph, inside_, k, k - width or _END) for k in range(width + 1)]
    tokens, masks = [], []
    one = graph.constant(np.int64(1))
    for size in PIECE_SIZES:
        token, mask = windows[0], within[1]
        for k in range(1, size):
            token = graph.op(
                "Add", token, graph.op("Mul", windows[k], graph.constant(power[k].view(np.int64)))
            )
            if 1 < k < size - 1:
                mask = graph.op("Mul", mask, within[k])
        tokens.append(token)
        masks.append(graph.op("Equal", mask, one))
    token, mask = (graph.concat(values) for values in (tokens, masks))
    places = graph.op("Transpose", graph.op("NonZero", mask), perm=[1, 0])
    row = graph.reshape(graph.columns(places, [0]), -1)
    found = graph.op("GatherND", token, places)
    return row, found, graph.op("Equal", row, row)


def _onnx_weights(
    graph: Graph, n_rows: str, tokens: tuple[str, str, str], keys: np.ndarray, rarity: np.ndarray
) -> str:
    """One block of :func:`weigh`: (rows, keys)."""
    row, token, valid = tokens
    none = graph.constant(np.int64(len(keys)))
    lookup = {
        "keys_int64s": keys.tolist(),
        "values_int64s": list(range(len(keys))),
        "default_int64": len(keys),
    }
    place = graph.op("LabelEncoder", token, domain="ai.onnx.ml", **lookup)
    place = graph.op("Where", valid, place, none)
    cells = graph.concat([graph.reshape(one, -1, 1) for one in (row, place)])
    one, n_keys = graph.constant(np.float32(1)), graph.constant(np.array([len(keys) + 1]))
    shape = graph.op("Concat", n_rows, n_keys, axis=0)
    counts = graph.op(
        "ScatterND",
        graph.op("Expand", graph.constant(np.float32(0)), shape),
        cells,
        graph.op("Expand", one, graph.op("Shape", row)),
        reduction="add",
    )
    counts = _onnx_slice(graph, counts, 0, len(keys))
    logs = graph.op("Add", graph.op("Log", graph.op("Max", counts, one)), one)
    weights = graph.op(
        "Mul", graph.op("Mul", graph.op("Min", counts, one), logs), graph.constant(rarity)
    )
    norm = graph.op("ReduceL2", weights, graph.constant(np.array([1])))
    return graph.op("Div", weights, graph.op("Max", norm, graph.constant(np.float32(1e-9))))
