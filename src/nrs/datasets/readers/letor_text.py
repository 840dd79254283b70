"""LETOR's text to numbers, a block of lines at a time, without a loop over lines or tokens.

Every byte gets the number that the four digits ending at it spell, by two doublings (1 → 2 → 4
digits); a token's value is then made of those at its last byte and four before, modulo ten to its
length. A decimal point counts as a digit 0 and is taken out again. So a block costs a fixed number
of passes over its bytes and a few over its tokens. What does not look like digits (exponents,
infinities, typing errors) is given to Python's `float`, one by one; a value ``NULL`` is missing.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np

from nrs.datasets.dataset import Array

_COMMENT = re.compile(rb"#[^\n]*")
# Stands before a block, so that no token begins too near to the start.
_MARGIN = b"x" * 15 + b"\n"
_POWERS = 10 ** np.arange(9, dtype=np.uint32)
# Digits of which every number is exact in float64.
_MOST_DIGITS = 15
_MOST_INDEX_DIGITS = 8
# How LETOR's own files say that a feature has no value.
_NULL = b"NULL"
# Whole numbers below this are exact in float64.
_EXACT = 2**53
_NO_POINT = 64


class MalformedLineError(ValueError):
    """A line that is not LETOR text; `line` counts from 0 within its block."""

    def __init__(self, line: int, what: str) -> None:
        super().__init__(what)
        self.line = line


class ZeroIndexError(MalformedLineError):
    """A line with index 0, where indices were to begin with 1."""


class Pairs(NamedTuple):
    """The numbers of a block of lines.

    labels : (n_lines,) float64
    qids : (n_lines,) int64; texts if a query of the block is no whole number of 64 bits
    counts : (n_lines,) how many pairs each has.
    columns, values : (n_pairs,) index from 1 and float64 value of each pair, line by line.
        The first pair of a line is its query, with index 0.
    """

    labels: Array
    qids: Array
    counts: Array
    columns: Array
    values: Array

    def dense(self, width: int) -> Array:
        """The features as (n_lines, width) float32; no index may be beyond the width.

        Examples
        --------
        >>> parse_block(b"2 qid:7 1:0.5 3:-1").dense(3).tolist()
        [[0.5, 0.0, -1.0]]
        """
        n = len(self.labels)
        # The queries go into a column of their own, which is then left out.
        X: Array = np.zeros((n, width + 1), np.float32)
        begin = np.repeat(np.arange(n) * (width + 1), self.counts)
        X.reshape(-1)[begin + self.columns] = self.values
        return X[:, 1:]


def parse_block(block: bytes, *, zero_based: bool = False) -> Pairs:
    """Read whole lines ``label qid:query index:value … # comment``; blank lines are passed over.

    Parameters
    ----------
    block : bytes
    zero_based : bool
        Whether indices in the text begin with 0; in the result they begin with 1.

    Raises
    ------
    ZeroIndexError
        At the first line with index 0, if none may be 0.
    MalformedLineError
        At the first line that is not of this form.

    Examples
    --------
    >>> pairs = parse_block(b"2 qid:7 1:0.5 3:-1e1 # note\\n\\n0 qid:7 2:12\\n")
    >>> pairs.labels.tolist(), pairs.qids.tolist()
    ([2.0, 0.0], [7, 7])
    >>> pairs.columns.tolist(), pairs.values.tolist()
    ([0, 1, 3, 0, 2], [7.0, 0.5, -10.0, 7.0, 12.0])
    >>> pairs = parse_block(b"1 qid:shoes 0:NULL 1:2\\n", zero_based=True)
    >>> pairs.qids.tolist(), pairs.dense(2).tolist()
    (['shoes'], [[nan, 2.0]])
    """
    text = _Text(block)
    starts, ends, colons = text.tokens()
    first = text.first_of_lines(starts)
    n_lines = len(first)
    inner = np.ones(len(starts), dtype=bool)
    inner[first] = False
    label_starts, label_ends = starts[first], ends[first]
    starts, ends = starts[inner], ends[inner]
    if len(colons) != len(starts) or not ((starts < colons) & (colons < ends - 1)).all():
        raise _explain(block)
    index_lengths = colons - starts
    if index_lengths.max(initial=0) > _MOST_INDEX_DIGITS:
        raise _explain(block)
    # The first pair of each line is its query.
    queries = first - np.arange(n_lines)
    counts = np.diff(np.append(queries, len(colons)))
    if n_lines and counts.min() < 1:
        raise _explain(block)
    if not text.spell(b"qid", starts[queries], colons[queries]).all():
        raise _explain(block)
    columns = text.integers(starts, colons)
    values, digits = text.numbers(colons + 1, ends)
    labels, label_digits = text.grades(label_starts, label_ends)
    # Every token has no more digits than it must have; so if the sums agree, all are right.
    other_digits = int(label_digits.sum() + index_lengths.sum()) - 3 * n_lines
    if int(digits.sum()) + other_digits != text.n_digits:
        text.read_exponents(colons, ends, values, digits)
        if int(digits.sum()) + other_digits != text.n_digits:
            starts[queries] = colons[queries]
            if not text.all_digits(starts, colons):
                raise _explain(block)
            is_query: Array = np.zeros(len(colons), dtype=bool)
            is_query[queries] = True
            nulls = text.spell(_NULL, colons + 1, ends) & ~is_query
            values[nulls], digits[nulls] = np.nan, 0
            if not text.read_others(colons + 1, ends, digits, values, may_be_text=is_query):
                raise _explain(block)
            if not text.read_others(label_starts, label_ends, label_digits, labels):
                raise _explain(block)
    if zero_based:
        columns += 1
    columns[queries] = 0
    if np.count_nonzero(columns) != len(columns) - n_lines:
        raise _explain(block)
    qids = text.names(colons[queries] + 1, ends[queries], values[queries])
    return Pairs(labels, qids, counts, columns, values)


class _Text:
    """A block of lines, its comments blanked, with the numbers that end at each byte."""

    def __init__(self, block: bytes) -> None:
        if b"#" in block:
            block = _COMMENT.sub(b"", block)
        self.signed = b"-" in block or b"+" in block
        self.content = _MARGIN + block + b"\n"
        self.bytes = np.frombuffer(self.content, dtype=np.uint8)
        one = self.bytes - np.uint8(ord("0"))
        is_digit = one < 10
        self.n_digits = int(np.count_nonzero(is_digit))
        one *= is_digit
        two = one.copy()
        one *= np.uint8(10)
        two[1:] += one[:-1]
        self.four = two.astype(np.uint16)
        self.four[2:] += two[:-2] * np.uint16(100)
        # Bytes back to the nearest decimal point, up to 15.
        point = (self.bytes != ord(".")).view(np.uint8)
        point *= np.uint8(_NO_POINT)
        for step in (1, 2, 4, 8):
            np.minimum(point[step:], point[:-step] + np.uint8(step), out=point[step:])
        self.point = point

    def tokens(self) -> tuple[Array, Array, Array]:
        """Where each token begins and ends (the byte after it), and where the colons are."""
        # One search for both, as it costs as much as all else that is done to the bytes.
        marks = np.flatnonzero((self.bytes <= ord(" ")) | (self.bytes == ord(":")))
        is_colon = self.bytes.take(marks) == ord(":")
        spaces = marks[~is_colon]
        starts, ends = spaces[:-1] + 1, spaces[1:]
        filled = starts < ends
        if not filled.all():
            starts, ends = starts[filled], ends[filled]
        return starts, ends, marks[is_colon]

    def first_of_lines(self, starts: Array) -> Array:
        """The number of the first token of each line that has any."""
        breaks = np.flatnonzero(self.bytes == ord("\n"))
        first = np.searchsorted(starts, breaks)
        return first[:-1][first[:-1] < first[1:]]

    def spell(self, word: bytes, starts: Array, ends: Array) -> Array:
        """Which of these tokens are the word."""
        found: Array = ends - starts == len(word)
        for place, byte in enumerate(word):
            found[found] = self.bytes[starts[found] + place] == byte
        return found

    def integers(self, starts: Array, ends: Array) -> Array:
        """The numbers that at most eight digits each spell."""
        return (self._eight(ends - 1) % _POWERS.take(ends - starts)).astype(np.int64)

    def numbers(self, starts: Array, ends: Array) -> tuple[Array, Array]:
        """Decimal numbers as float64, and how many digits each must have to be right."""
        length = ends - starts
        last = ends - 1
        value = (self._eight(last) % _POWERS.take(np.minimum(length, 8))).astype(np.float64)
        if (length > 8).any():
            more = np.clip(length - 8, 0, 8)
            value += 1e8 * (self._eight(last - 8) % _POWERS.take(more))
        point = self.point[last]
        has_point = point < length
        place = np.where(has_point, point, np.uint8(_NONE))
        # "12.5" was read as 1205: the whole part stands one place too far left.
        whole = np.floor(value * _WHOLE.take(place) + 0.05)
        value -= whole * _EXCESS.take(place)
        value /= _SCALE.take(place)
        digits = length - has_point
        if self.signed:
            sign = self.bytes[starts]
            negative = sign == ord("-")
            value *= 1.0 - 2.0 * negative
            digits -= negative | (sign == ord("+"))
        # Longer ones are not exact, and shorter ones no number: they never have so many.
        digits[(length > _MOST_DIGITS) | (digits < 1)] = -1
        return value, digits

    def grades(self, starts: Array, ends: Array) -> tuple[Array, Array]:
        """As `numbers`, quickly where each token is one byte, as grades are."""
        length = ends - starts
        if length.max(initial=1) > 1:
            return self.numbers(starts, ends)
        return self.four[starts] % 10.0, length

    def all_digits(self, starts: Array, ends: Array) -> bool:
        """Whether the tokens consist of digits alone."""
        return bool((self._count(starts, ends) == ends - starts).all())

    def read_exponents(self, colons: Array, ends: Array, values: Array, digits: Array) -> None:
        """Read again values like ``1.5e-07``, and set how many digits they must have."""
        marks = np.flatnonzero((self.bytes | 0x20) == ord("e"))
        pair = np.minimum(np.searchsorted(ends, marks), len(ends) - 1)
        inside = (marks > colons[pair] + 1) & (marks < ends[pair] - 1)
        marks, pair = marks[inside], pair[inside]
        first, last = colons[pair] + 1, ends[pair]
        mantissa, mantissa_digits = self.numbers(first, marks)
        exponent, exponent_digits = self.numbers(marks + 1, last)
        # With a point or absurdly large it is left to Python's float.
        right = (self.point[last - 1] >= last - marks - 1) & (np.abs(exponent) < 100)
        right &= (mantissa_digits > 0) & (exponent_digits > 0)
        values[pair[right]] = mantissa[right] * 10.0 ** exponent[right]
        digits[pair] = np.where(right, mantissa_digits + exponent_digits, -1)

    def read_others(
        self, starts: Array, ends: Array, digits: Array, values: Array,
        may_be_text: Array | None = None,
    ) -> bool:  # fmt: skip
        """Read one by one the tokens that are no plain decimals: infinities, long ones, errors.

        False if one is no number and may not be a text; what is a text is NaN.
        """
        for token in np.flatnonzero(self._count(starts, ends) != digits).tolist():
            number = _float(self.content[starts[token] : ends[token]])
            if number is None and (may_be_text is None or not may_be_text[token]):
                return False
            values[token] = np.nan if number is None else number
        return True

    def names(self, starts: Array, ends: Array, values: Array) -> Array:
        """Queries as whole numbers, read again where float64 has lost digits; else all as texts."""
        exact = (np.abs(values) < _EXACT) & (values == np.floor(values))
        numbers: Array = np.where(exact, values, 0).astype(np.int64)
        texts = {}
        for token in np.flatnonzero(~exact).tolist():
            spelled = self.content[starts[token] : ends[token]]
            number = _whole(spelled)
            if number is None:
                texts[token] = spelled.decode("utf-8", "replace")
            else:
                numbers[token] = number
        if not texts:
            return numbers
        named = numbers.astype(str).astype(object)
        named[list(texts)] = list(texts.values())
        return named.astype(str)

    def _eight(self, last: Array) -> Array:
        """The numbers that the eight digits up to these bytes spell."""
        number: Array = self.four.take(last - 4) * np.uint32(10_000)
        number += self.four.take(last)
        return number

    def _count(self, starts: Array, ends: Array) -> Array:
        """Number of digits in each token."""
        before = np.cumsum(self.bytes - np.uint8(ord("0")) < 10, dtype=np.int32)
        return before[ends - 1] - before[starts - 1]


# By the bytes after a decimal point, and last for numbers without one: what turns the number read
# with the point as a digit into its whole part, the excess of that, and the scale.
_NONE = 16
_WHOLE = np.append(10.0 ** -(np.arange(_NONE) + 1), 0.0)
_EXCESS = np.append(9.0 * 10.0 ** np.arange(_NONE), 0.0)
_SCALE = np.append(10.0 ** np.arange(_NONE), 1.0)


def _float(token: bytes) -> float | None:
    try:
        return None if b"_" in token else float(token)
    except ValueError:
        return None


def _whole(token: bytes) -> int | None:
    """A whole number of 64 bits; with a point or an exponent only where it is exact."""
    number = _float(token)
    if number is None or (abs(number) < _EXACT and number != number // 1):
        return None
    if abs(number) < _EXACT:
        return int(number)
    digits = token.lstrip(b"+-")
    return int(token) if digits.isdigit() and -(2**63) <= int(token) < 2**63 else None


def _explain(block: bytes) -> MalformedLineError:
    """Find the first bad line of a block that could not be read, and say what is wrong."""
    for number, line in enumerate(block.split(b"\n")):
        tokens = line.split(b"#", 1)[0].split()
        if tokens:
            problem = _problem(tokens)
            if problem:
                return MalformedLineError(number, problem)
            zero = next((token for token in tokens[2:] if int(token.split(b":")[0]) == 0), None)
            if zero is not None:
                what = f"{_shown(zero)} has index 0, and indices begin with 1"
                return ZeroIndexError(number, what)
    return MalformedLineError(0, "the block cannot be read")


def _problem(tokens: list[bytes]) -> str | None:
    if _float(tokens[0]) is None:
        return f"the label {_shown(tokens[0])} is not a number"
    if len(tokens) < 2 or not tokens[1].startswith(b"qid:"):
        return "there is no query (qid:…) after the label"
    if not tokens[1][4:] or b":" in tokens[1][4:]:
        return f"the query {_shown(tokens[1])} must be a number or a text without colons"
    for token in tokens[2:]:
        index, colon, value = token.partition(b":")
        if (
            not colon
            or not index.isdigit()
            or len(index) > _MOST_INDEX_DIGITS
            or (value != _NULL and _float(value) is None)
        ):
            return f"{_shown(token)} is not a pair index:value"
    return None


def _shown(token: bytes) -> str:
    return repr(token[:40].decode("utf-8", "replace"))
