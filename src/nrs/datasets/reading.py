"""What a column of texts is: decided once on all of its distinct texts, then applied to any rows.

`decide` looks at a whole column and returns a `Plan`, or None where texts are texts: categories,
free text, and codes such as 01234, postcodes and phone numbers. A plan is a few JSON values, so it
travels with a table (in the metadata of its Arrow schema) and with a model (in the header of its
file), and the same decision reads the rows that come later.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from nrs.datasets.dialects import COMPOUNDS, NUMBER_FORMS, Dates, Numbers, compound, times

# Cells that say that there is no value, without case.
NOTHING = frozenset({
    "", "?", "-", "--", "---", "–", "—", ".", "..", "…", "n/a", "na", "n.a.", "n.a", "#n/a", "nan",
    "none", "null", "(null)", "nil", "missing", "unknown", "tbd", "not available", "#value!",
    "#div/0!", "#ref!", "#null!", "#num!", "1.#qnan", "<na>", "nat",
})  # fmt: skip
# Share of the distinct texts that must follow a convention, so that the others are mistakes.
MIN_SHARE = 0.95
# The same where almost all rows follow it: a few people answered in words.
MIN_SHARE_OF_ROWS, MIN_SHARE_THEN = 0.99, 0.5
# Texts with units, ranges and limits are numbers where they are more than this many; fewer of them
# are levels, such as 18-24 and 25-34.
MAX_LEVELS = 20
# Texts that are tried before a column is read as a whole.
TRIED = 64
# Digits that a float holds.
MAX_DIGITS = 15
METADATA = b"nrs.reading"
ORDERS = {"dmy": "day first", "mdy": "month first", "ymd": "year first"}
KINDS = ("number", "date", "duration", "category")

_DIGIT = re.compile(r"\d")
_PLAIN = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_INTEGER = re.compile(r"\+?\d+")
_CODE_NAME = re.compile(
    r"(^|[^a-z])(zip|zip ?code|post ?code|postal ?code|plz|phone|telephone|mobile|fax|isbn|iban)"
    r"([^a-z]|$)"
)


@dataclass(frozen=True)
class Plan:
    """How the texts of a column are read, as JSON values.

    Attributes
    ----------
    kind : "number", "date", "duration" or "category"
        A duration is in seconds; a time of day is the time since midnight. A category only has
        texts that are missing.
    decimal, thousands : str
        Of numbers.
    units : tuple of str
        What may follow a number; a cell with another unit is missing. Lower case, singular.
    compound : str
        "seconds", "months", "inches" or "ounces" for quantities such as "2h 50m".
    order : str
        Of dates: "dmy", "mdy" or "ymd".
    sentinels : tuple of float
        Numbers that stand for no value.
    missing : tuple of str
        Further texts that stand for no value.
    """

    kind: str
    decimal: str = "."
    thousands: str = ""
    units: tuple[str, ...] = ()
    compound: str = ""
    order: str = ""
    sentinels: tuple[float, ...] = ()
    missing: tuple[str, ...] = ()
    # Whether cells may be texts; else they are numbers, among which only sentinels are looked for.
    reads_text: bool = True

    def read(self, texts: Sequence[str]) -> np.ndarray:
        """The values of texts: (n,) float64 or datetime64[us], NaN or NaT where it is none.

        Examples
        --------
        >>> Plan("number", ",", ".", sentinels=(-200.0,)).read(["1.200,5", "-200", "n/a"]).tolist()
        [1200.5, nan, nan]
        """
        if self.kind == "date":
            return Dates(texts).read(self.order)
        if self.compound:
            return compound(texts, COMPOUNDS[self.compound])
        if self.kind == "duration":
            return times(texts)
        found = read_numbers(texts, self.decimal, self.thousands)
        known = {"", *self.units}
        other = np.array([unit not in known for unit in found.units], dtype=bool)
        other |= np.array([text.strip() in self.missing for text in texts], dtype=bool)
        found.values[other] = np.nan
        return self.without_sentinels(found.values)

    def without_sentinels(self, values: np.ndarray) -> np.ndarray:
        """Numbers with NaN in place of those that stand for no value."""
        if not self.sentinels:
            return values
        hit = np.isin(values, self.sentinels)
        return np.where(hit, np.nan, values) if hit.any() else values

    def to_dict(self) -> dict[str, Any]:
        """As JSON values, without what is at its default."""
        default = vars(Plan(self.kind))
        found = {name: value for name, value in asdict(self).items() if value != default[name]}
        return {"kind": self.kind} | {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in found.items()
        }

    @classmethod
    def from_dict(cls, state: Mapping[str, Any]) -> Plan:
        """Read what :meth:`to_dict` gave."""
        lists = {name: tuple(value) for name, value in state.items() if isinstance(value, list)}
        return cls(**{**state, **lists})

    def words(self) -> str:
        """The plan in a few words.

        Examples
        --------
        >>> Plan("number", ",", units=("kg",)).words(), Plan("date", order="dmy").words()
        ("numbers with a decimal comma, unit 'kg'", 'dates, day first')
        """
        if self.kind == "category":
            return "texts"
        if self.kind == "date":
            return "dates" if self.order == "ymd" else f"dates, {ORDERS[self.order]}"
        if self.compound:
            return f"quantities in {self.compound}"
        if self.kind == "duration":
            return "times"
        said = ["numbers"]
        if self.decimal == ",":
            said.append("with a decimal comma")
        if self.thousands:
            name = {",": "commas", ".": "points", " ": "spaces", "'": "apostrophes"}
            said.append(f"{'and' if len(said) > 1 else 'with'} {name[self.thousands]} in thousands")
        units = ", ".join(map(repr, self.units[:3]))
        return " ".join(said) + (f", unit {units}" if units else "")


@dataclass(frozen=True)
class Hint:
    """What other columns of the same file say: their decimal sign, and their order of dates."""

    decimal: str = ""
    order: str = ""


@dataclass(frozen=True)
class Decision:
    """What a column of texts is, and what a user should know of the decision.

    Attributes
    ----------
    plan : Plan or None
        None where texts stay texts.
    ambiguous : str
        The other way to read it, if all of its cells allow both: an option such as "mdy".
    lost : tuple of str
        Texts that are no value to the plan and do not say that they are none.
    n_lost : int
        Rows of these.
    example : str
        A text that is only a value under the plan.
    nothing : tuple of str
        Texts that say that there is no value.
    """

    plan: Plan | None = None
    ambiguous: str = ""
    lost: tuple[str, ...] = ()
    n_lost: int = 0
    example: str = ""
    nothing: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """As JSON values; see :meth:`from_dict`."""
        plan = None if self.plan is None else self.plan.to_dict()
        return {
            "plan": plan,
            "ambiguous": self.ambiguous,
            "lost": [*self.lost],
            "n_lost": self.n_lost,
            "example": self.example,
            "nothing": [*self.nothing],
        }

    @classmethod
    def from_dict(cls, state: Mapping[str, Any]) -> Decision:
        """Read what :meth:`to_dict` gave."""
        plan = None if state["plan"] is None else Plan.from_dict(state["plan"])
        lost, nothing = tuple(state["lost"]), tuple(state["nothing"])
        return cls(plan, state["ambiguous"], lost, state["n_lost"], state["example"], nothing)

    def shown(self) -> str:
        """The example and its value.

        Examples
        --------
        >>> decide(["1.234,5", "7,25"]).shown(), decide(["25/12/2024"]).shown()
        ("'1.234,5' is 1234.5", "'25/12/2024' is 2024-12-25")
        """
        if self.plan is None or not self.example:
            return ""
        value = self.plan.read([self.example])[0]
        if self.plan.kind == "date":
            text = str(value.astype("datetime64[s]")).replace("T", " ").removesuffix(" 00:00:00")
        else:
            text = f"{value:.10g}" + (" seconds" if self.plan.kind == "duration" else "")
        return f"{self.example!r} is {text}"


def read_numbers(texts: Sequence[str], decimal: str, thousands: str) -> Numbers:
    """Numbers under one convention; a text that only has the other decimal sign is read by that.

    Examples
    --------
    >>> read_numbers(["1.5", "2,5", "1,000"], ".", ",").values.tolist()
    [1.5, 2.5, 1000.0]
    """
    found = Numbers(texts, decimal, thousands)
    rest = np.flatnonzero(np.isnan(found.values)).tolist()
    if rest:
        others = Numbers([texts[place] for place in rest], "." if decimal == "," else ",", "")
        found.values[rest], found.loose[rest] = others.values, others.loose
        for place, unit in zip(rest, others.units, strict=True):
            found.units[place] = unit
    return found


def decision_of(metadata: bytes) -> Decision:
    """A decision from the metadata of an Arrow field, under ``METADATA``."""
    return Decision.from_dict(json.loads(metadata))


@dataclass
class _Texts:
    """The distinct texts of a column that hold something, and the rows of each."""

    texts: list[str]
    counts: np.ndarray
    name: str = ""
    total: int = field(init=False)

    def __post_init__(self) -> None:
        self.total = int(self.counts.sum())

    def follows(self, right: np.ndarray) -> bool:
        """Whether so many texts follow a convention that the others are mistakes."""
        share, rows = right.mean(), self.counts[right].sum() / max(1, self.total)
        few = rows >= MIN_SHARE_OF_ROWS and share >= MIN_SHARE_THEN
        return bool(share >= MIN_SHARE or (few and right.sum() > MAX_LEVELS))

    def decision(self, plan: Plan, ambiguous: str = "") -> Decision:
        values = plan.read(self.texts)
        lost = np.isnat(values) if plan.kind == "date" else np.isnan(values)
        texts = [self.texts[place] for place in np.flatnonzero(lost)]
        plain = plan.kind == "number" and not plan.thousands
        example = next(
            (
                text
                for text, gone in zip(self.texts, lost, strict=True)
                if not gone and not (plain and _PLAIN.fullmatch(text))
            ),
            "",
        )
        return Decision(plan, ambiguous, tuple(texts[:5]), int(self.counts[lost].sum()), example)

    def sample(self) -> _Texts:
        at = np.unique(np.linspace(0, len(self.texts) - 1, TRIED).astype(int))
        return _Texts([self.texts[place] for place in at], self.counts[at], self.name)


def decide(
    texts: Sequence[str],
    counts: np.ndarray | None = None,
    *,
    name: str = "",
    hint: Hint | None = None,
    typed: bool = False,
) -> Decision:
    """Decide what the texts of a column are.

    Parameters
    ----------
    texts : sequence of str
        All distinct texts of the column.
    counts : (n,) integers, optional
        The rows of each.
    name : str
        Of the column; a postcode or a phone number is a code.
    hint : Hint, optional
        What decides where all cells of this column allow two readings.
    typed : bool
        Whether whole numbers would have been numbers had their owner meant numbers: then up to
        ``MAX_LEVELS`` of them are categories.

    Examples
    --------
    >>> decide(["1.234,5", "7,25", "n/a"]).plan.to_dict()
    {'kind': 'number', 'decimal': ',', 'thousands': '.'}
    >>> decide(["01/02/2024", "03/04/2024"]).ambiguous
    'mdy'
    >>> decide(["01234", "10115"]).plan, decide(["red", "blue"]).plan
    (None, None)
    """
    kept = [place for place, text in enumerate(texts) if text.strip().lower() not in NOTHING]
    if not kept:
        return Decision()
    rows = np.ones(len(texts), dtype=np.int64) if counts is None else np.asarray(counts)
    found = _Texts([texts[place].strip() for place in kept], rows[kept], name)
    if np.mean([bool(_DIGIT.search(text)) for text in found.sample().texts]) < MIN_SHARE_THEN:
        return Decision()
    if len(kept) > 4 * TRIED and _read(found.sample(), hint or Hint(), typed, loosely=True) is None:
        return Decision()
    decision = _read(found, hint or Hint(), typed)
    said = {text.strip() for text in texts if text.strip().lower() in NOTHING} - {""}
    return Decision() if decision is None else replace(decision, nothing=tuple(sorted(said)[:5]))


def _read(found: _Texts, hint: Hint, typed: bool, *, loosely: bool = False) -> Decision | None:
    """The first reading that the texts follow."""
    share = MIN_SHARE_THEN if loosely else None
    if _are_codes(found, typed):
        return None
    for read in (_as_times, _as_dates, _as_numbers, _as_compound):
        decision = read(found, hint, share)
        if decision is not None:
            return decision
    return None


def _are_codes(found: _Texts, typed: bool) -> bool:
    """Whether texts of digits name something rather than count it."""
    whole = [text for text in found.texts if _INTEGER.fullmatch(text)]
    if len(whole) < MIN_SHARE * len(found.texts):
        return False
    if typed and len(found.texts) <= MAX_LEVELS:
        return True
    padded = any(len(text) > 1 and text[0] == "0" for text in whole)
    long = sum(len(text) > MAX_DIGITS for text in whole) > len(whole) / 2
    dialled = sum(text[0] == "+" and len(text) > 7 for text in whole) > len(whole) / 2
    return padded or long or dialled or is_code_name(found.name)


def is_code_name(name: str) -> bool:
    """Whether a column is called after codes: postcodes, phone numbers, ISBNs.

    Examples
    --------
    >>> [is_code_name(name) for name in ("Zip Code", "phone_number", "zipper", "price")]
    [True, True, False, False]
    """
    return bool(_CODE_NAME.search(name.lower().replace("_", " ")))


def _accepts(found: _Texts, right: np.ndarray, share: float | None) -> bool:
    return found.follows(right) if share is None else bool(right.mean() >= share)


def _as_times(found: _Texts, hint: Hint, share: float | None) -> Decision | None:
    values = times(found.texts)
    if not _accepts(found, ~np.isnan(values), share):
        return None
    # 10.11.12 is a date sooner than a time.
    if ":" not in found.texts[0] and _as_dates(found, hint, share) is not None:
        return None
    return found.decision(Plan("duration"))


def _as_dates(found: _Texts, hint: Hint, share: float | None) -> Decision | None:
    parts = Dates(found.texts)
    if not _accepts(found, parts.matched, share):
        return None
    if parts.forms.max() == 6 and len(found.texts) < 5:
        # Eight digits are a date only where many are.
        return None
    reads = {order: parts.read(order) for order in ORDERS}
    right = {order: int((~np.isnat(values)).sum()) for order, values in reads.items()}
    best = max(right.values())
    orders = [order for order, n in right.items() if n == best]
    # Dates that say themselves which part is which are the same in every order.
    order, ambiguous = orders[0], ""
    if all(_same(reads[one], reads[order]) for one in ORDERS):
        order = "ymd"
    alike = [one for one in orders[1:] if not _same(reads[one], reads[order])]
    if alike:
        ambiguous = alike[0]
        if hint.order in orders:
            order, ambiguous = hint.order, ""
        elif parts.separators == {"."}:
            # Only those who put the day first write points.
            ambiguous = ""
    values = reads[order]
    if not _accepts(found, ~np.isnat(values), share):
        return None
    return found.decision(Plan("date", order=order), ambiguous)


def _same(one: np.ndarray, other: np.ndarray) -> bool:
    return bool(((one == other) | (np.isnat(one) & np.isnat(other))).all())


def _as_numbers(found: _Texts, hint: Hint, share: float | None) -> Decision | None:
    forms = {form: Numbers(found.texts, *form) for form in _possible_forms(found.texts)}
    if hint.decimal == ",":
        # Then 1.234 has a point in thousands.
        forms = {form: forms[form] for form in sorted(forms, key=lambda one: one[0] != ",")}
    n_right = {form: int((~np.isnan(one.values)).sum()) for form, one in forms.items()}
    best = max(n_right.values())
    fitting = [form for form, n in n_right.items() if n == best]
    form, other = fitting[0], _other_reading(forms, fitting)
    if form == (".", "") and other and not hint.decimal and not forms[other].grouped.all():
        # 1.234 next to 567, and never 1.5: a point in thousands.
        form, other = other, form
    known = bool(hint.decimal) and form[0] == hint.decimal
    numbers = read_numbers(found.texts, *form)
    ambiguous = other[0] if other and not known else ""
    right = ~np.isnan(numbers.values)
    if not right.any():
        return None
    units = _usual_units(found.name, numbers)
    other_unit = np.array([bool(unit) and unit not in units for unit in numbers.units])
    values = np.where(other_unit, np.nan, numbers.values)
    right = ~np.isnan(values)
    if not _accepts(found, right, share):
        return None
    loose = numbers.loose | np.array([bool(set(unit) - set("%°€$£¥₹")) for unit in numbers.units])
    if share is None and loose[right].any() and int(right.sum()) <= MAX_LEVELS:
        return None
    # Phone numbers and codes look like ranges; a range among numbers does not stand alone.
    if numbers.ranges[right].mean() > 0.5:
        return None
    plan = Plan("number", *form, units=tuple(sorted(units - {""})))
    return found.decision(plan, ambiguous)


def _possible_forms(texts: Sequence[str]) -> list[tuple[str, str]]:
    """Conventions whose signs occur in the texts; plain numbers in any case."""
    written = set("".join(texts))
    written |= {" "} if written & {"\u00a0", "\u202f"} else set()
    written |= {"'"} if "’" in written else set()
    return [
        (decimal, thousands)
        for decimal, thousands in NUMBER_FORMS
        if thousands in written or (not thousands and (decimal == "." or decimal in written))
    ]


def _other_reading(
    forms: Mapping[tuple[str, str], Numbers], fitting: Sequence[tuple[str, str]]
) -> tuple[str, str] | None:
    """Another convention that fits as well as the first and gives other numbers."""
    first = forms[fitting[0]].values
    return next((one for one in fitting[1:] if not _equal(forms[one].values, first)), None)


def _equal(one: np.ndarray, other: np.ndarray) -> bool:
    return bool(((one == other) | (np.isnan(one) & np.isnan(other))).all())


def _usual_units(name: str, numbers: Numbers) -> set[str]:
    """The unit of a column of numbers; numbers in any other are on another scale."""
    units = np.array(numbers.units)
    right = ~np.isnan(numbers.values)
    counts = Counter(units[right & (units != "")].tolist())
    if not counts:
        return {""}
    unit, n = counts.most_common(1)[0]
    plain = numbers.values[right & (units == "")]
    if n < len(plain):
        # Most cells have none, so theirs is that of the column's name, or one of equal scale.
        letters = re.sub(r"\W", "", unit)
        named = bool(letters) and letters in re.sub(r"[\W_]", "", name.lower())
        scale = np.median(np.abs(numbers.values[right & (units == unit)]))
        usual = np.median(np.abs(plain))
        if not named and not usual / 2 <= scale <= 2 * usual:
            return {""}
    return {"", unit}


def _as_compound(found: _Texts, hint: Hint, share: float | None) -> Decision | None:
    if not any(character.isdigit() for character in found.texts[0]):
        return None
    for name, worth in COMPOUNDS.items():
        values = compound(found.texts, worth)
        if _accepts(found, ~np.isnan(values), share) and len(found.texts) > MAX_LEVELS:
            kind = "duration" if name == "seconds" else "number"
            return found.decision(Plan(kind, compound=name))
    return None


def hint_of(decisions: Sequence[Decision], *, points: bool = False) -> Hint:
    """What the columns of a file that allow one reading say to those that allow two.

    `points` says that a column of plain numbers has decimal points.

    Examples
    --------
    >>> hint_of([decide(["2,5", "3,75"]), decide(["25/12/2024"])])
    Hint(decimal=',', order='dmy')
    """
    sure = [one.plan for one in decisions if one.plan is not None and not one.ambiguous]
    numbers = [plan for plan in sure if plan.kind == "number"]
    commas = sum(plan.decimal == "," for plan in numbers)
    points |= any(plan.thousands == "," for plan in numbers)
    orders = {plan.order for plan in sure if plan.kind == "date" and plan.order != "ymd"}
    decimal = "," if commas and not points else "." if points and not commas else ""
    return Hint(decimal, orders.pop() if len(orders) == 1 else "")


def find_sentinels(values: np.ndarray, known: Sequence[float] = ()) -> tuple[float, ...]:
    """Numbers that stand for no value: −200, 999 and the like, repeated and far from all others.

    Parameters
    ----------
    values : (n,) float64
        NaN where a cell is missing.
    known : sequence of float
        What stands for no value in other columns of the file; then a value below zero among
        others that are not is enough.

    Examples
    --------
    >>> find_sentinels(np.array([*np.linspace(1, 3, 20), -200.0, -200.0]))
    (-200.0,)
    >>> find_sentinels(np.arange(1000.0))
    ()
    """
    present = values[~np.isnan(values)]
    distinct, counts = np.unique(present, return_counts=True)
    found: list[float] = []
    while len(distinct) > 10:
        at = next((end for end in (0, -1) if _is_sentinel(distinct, counts, end, known)), None)
        if at is None:
            break
        found.append(float(distinct[at]))
        distinct, counts = np.delete(distinct, at), np.delete(counts, at)
    return tuple(sorted(found))


def _is_sentinel(
    distinct: np.ndarray, counts: np.ndarray, end: int, known: Sequence[float]
) -> bool:
    value = float(distinct[end])
    if value != int(value) or abs(value) < 9:
        return False
    others = distinct[1:] if end == 0 else distinct[:-1]
    digits = str(abs(int(value)))
    nines = set(digits) == {"9"}
    rounded = value < 0 and len(digits) > 1 and set(digits[1:]) == {"0"}
    if not (nines or rounded) or counts[end] < 2:
        return False
    often = counts[end] >= 5 or counts[end] >= 0.05 * counts.sum()
    gap, extent = abs(value - (others[0] if end == 0 else others[-1])), others[-1] - others[0]
    if value < 0 <= others[0]:
        # No other cell is below zero, and this one is far below.
        return value in known or gap > extent or (len(digits) > 2 and often)
    return bool(gap > 2 * extent) and len(digits) > 1
