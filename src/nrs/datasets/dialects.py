"""Numbers, dates and times as people write them, read from texts under one stated convention.

Every function takes distinct texts and gives an array with NaN or NaT where a text does not follow
the convention. Which convention a column follows is decided in :mod:`nrs.datasets.reading`.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence

import numpy as np

# What stands for a thousand, a million, … after a number.
MULTIPLES = {
    "k": 1e3, "thousand": 1e3, "lakh": 1e5, "lac": 1e5, "mn": 1e6, "mio": 1e6, "million": 1e6,
    "tsd": 1e3, "crore": 1e7, "cr": 1e7, "bn": 1e9, "b": 1e9, "billion": 1e9,
}  # fmt: skip
_MONEY = r"(?:US\$|A\$|C\$|R\$|[$€£¥₹₽₩₺₴฿¢]|USD|EUR|GBP|CHF|INR|Rs\.?|kr\.?)"
# With m2 and km3, and marks out of so many: 7/10, 4 out of 5 stars.
_UNIT = (
    r"[^\W\d][^\d]{0,18}[23]?|[%°€$£¥₹₽₩₺₴‰]\D{0,9}|\"|''?"
    r"|(?:/|out of)\s*(?:5|10|20|100)(?:\s+\D{0,9})?"
)
_NEGATIVE = ("-", "−", "(")
# Units that are written one after the other, as in "2h 50m" and 5'11": what each is worth.
_SECONDS = {
    "s": 1, "sec": 1, "second": 1, "m": 60, "min": 60, "minute": 60, "h": 3600, "hr": 3600,
    "hour": 3600, "d": 86400, "day": 86400, "w": 604800, "week": 604800,
}  # fmt: skip
_MONTHS = {"month": 1, "mon": 1, "mo": 1, "year": 12, "yr": 12, "y": 12}
_INCHES = {
    "in": 1, "inch": 1, "inches": 1, '"': 1, "''": 1, "'": 12, "ft": 12, "feet": 12, "foot": 12,
}  # fmt: skip
_OUNCES = {"oz": 1, "ounce": 1, "lb": 16, "pound": 16, "st": 224, "stone": 224}
COMPOUNDS: dict[str, Mapping[str, float]] = {
    "seconds": _SECONDS, "months": _MONTHS, "inches": _INCHES, "ounces": _OUNCES,
}  # fmt: skip
_MONTH_NAMES = (
    "jan janv januar ene gen", "feb févr fév fevr februar", "mar mär mrt märz maerz mars",
    "apr avr abr", "may mai mei mag maj", "jun juin juni giu", "jul juil juli lug",
    "aug août aout ago", "sep sept set", "oct okt ott out", "nov", "dec dez déc dic des",
)  # fmt: skip
_MONTH = {
    name: number for number, names in enumerate(_MONTH_NAMES, 1) for name in names.split()
}  # fmt: skip
_CLOCK = (
    r"(?P<hour>\d{1,2}):(?P<minute>\d{2})(?::(?P<second>\d{2})(?:[.,](?P<fraction>\d{1,9}))?)?"
    r"\s*(?P<half>[AaPp]\.?[Mm]\.?)?\s*(?P<zone>Z|UTC|GMT|[+-]\d{2}:?\d{2})?"
)
_WORD, _TH = r"[^\W\d_]{3,9}", "(?:st|nd|rd|th)?"
_DATES = tuple(
    re.compile(rf"(?:{_WORD},?\s+)?{form}(?:(?:T|,?\s+|:)(?:{_CLOCK}))?")
    for form in (
        r"(?P<a>\d{1,4})(?P<sep>[-/. ])(?P<b>\d{1,2})(?P=sep)(?P<c>\d{4}|\d{1,2})",
        rf"(?P<a>\d{{1,4}}){_TH}(?P<sep>[-/. ]+)(?P<b>{_WORD})\.?(?:[-/, ]+)(?P<c>\d{{4}}|\d{{2}})",
        rf"(?P<b>{_WORD})\.?(?P<sep>[-/ ])(?P<a>\d{{1,2}}){_TH}(?:,\s*|[-/ ])(?P<c>\d{{4}})",
        rf"(?P<b>{_WORD})\.?(?P<sep>[-/ ]|,\s*)(?P<c>\d{{4}})",
        r"(?P<c>\d{4})(?P<sep>[-/])(?P<b>\d{1,2})",
        r"(?P<b>\d{1,2})(?P<sep>[-/])(?P<c>\d{4})",
        r"(?P<c>(?:19|20)\d{2})(?P<b>\d{2})(?P<a>\d{2})",
    )
)
_TIME = re.compile(
    r"(?P<hour>\d{1,3})(?P<sep>[:.])(?P<minute>[0-5]\d)"
    r"(?:(?P=sep)(?P<second>[0-5]\d)(?:[.,]\d{1,9})?)?\s*(?P<half>[AaPp]\.?[Mm]\.?)?"
)
# Two-digit years up to this one are of the 2000s, as in POSIX.
_PIVOT = 68
NUMBER_FORMS = (
    (".", ""), (".", ","), (",", ""), (",", "."), (",", " "), (".", " "), (".", "'"), (",", "'"),
)  # fmt: skip


@functools.cache
def _number(decimal: str, thousands: str) -> re.Pattern[str]:
    group = {" ": r"[ \u00a0\u202f]", "'": "['’]"}.get(thousands, re.escape(thousands))
    point = re.escape(decimal)
    # 12,- is a price without cents.
    one = rf"(?:\d+(?:{point}(?:\d+|[-–—])?)?|{point}\d+)(?:[eE][+-]?\d+)?"
    if thousands:
        # Nobody writes 1,234e5.
        one = rf"(?:[1-9]\d{{0,2}}(?:{group}\d{{2,3}})*{group}\d{{3}}(?:{point}\d*)?|{one})"
    return re.compile(
        rf"(?P<about>[<>~≈≤≥]=?)?\s*(?P<minus>[-−+(])?\s*(?P<money>{_MONEY})?\s*(?P<sign>[-−+])?"
        rf"(?P<one>{one})(?:\s*(?:-|–|—|to)\s*(?P<two>{one}))?(?P<plus>\+)?(?P<after>-(?!\S))?"
        rf"(?:\s*(?P<unit>{_UNIT}))?(?P<close>\))?"
    )


def unit_of(text: str) -> str:
    """A unit in its usual form: without case, plural and dots."""
    found = " ".join(text.lower().replace(".", " ").split()).rstrip("+").strip()
    return found[:-1] if len(found) > 2 and found.endswith("s") and found != "celsius" else found


class Numbers:
    """The numbers of texts under one convention, and what is written next to them.

    Examples
    --------
    >>> found = Numbers(["1.200,5 kg", "− 3", "7–9", "x"], ",", ".")
    >>> found.values.tolist(), found.units, found.ranges.tolist()
    ([1200.5, -3.0, 8.0, nan], ['kg', '', '', ''], [False, False, True, False])
    """

    def __init__(self, texts: Sequence[str], decimal: str, thousands: str) -> None:
        pattern, n = _number(decimal, thousands), len(texts)
        self.values = np.full(n, np.nan)
        self.units = [""] * n
        self.ranges, self.loose = np.zeros(n, dtype=bool), np.zeros(n, dtype=bool)
        self.grouped = np.zeros(n, dtype=bool)
        strip = str.maketrans({decimal: ".", **dict.fromkeys(" \u00a0\u202f'’" + thousands)})
        strip.pop(ord(decimal), None)
        for place, text in enumerate(texts):
            found = pattern.fullmatch(text.strip())
            if found is None or (found["minus"] == "(") != (found["close"] is not None):
                continue
            one, two = (
                None
                if part is None
                else float(part.translate(strip).rstrip("-–—").replace(decimal, "."))
                for part in (found["one"], found["two"])
            )
            assert one is not None
            if two is not None:
                if two <= one or found["minus"] or found["sign"]:
                    continue
                one, self.ranges[place] = (one + two) / 2, True
            unit, factor = _factor(found["unit"] or "", found["money"])
            # SAP writes the sign after the number.
            signs = (found["minus"], found["sign"], found["after"])
            negative = any(sign in _NEGATIVE for sign in signs)
            self.values[place] = (-one if negative else one) * factor
            self.units[place] = unit
            self.loose[place] = bool(found["about"] or found["plus"] or two is not None)
            self.grouped[place] = bool(thousands) and thousands in (found["one"] or "")


def _factor(written: str, money: str | None) -> tuple[str, float]:
    """The unit that is left, and what it multiplies a number by."""
    plain = written.strip()
    unit = unit_of(plain)
    if plain == "M" or (money and unit == "m"):
        return "", 1e6
    # "Mio. €" is a million.
    word, _, rest = unit.partition(" ")
    if word in MULTIPLES and plain != "b" and (not rest or re.fullmatch(_MONEY, rest, re.I)):
        return "", MULTIPLES[word]
    return unit, 1.0


def compound(texts: Sequence[str], worth: Mapping[str, float]) -> np.ndarray:
    """Quantities of several units of one kind, such as hours and minutes, as numbers.

    Examples
    --------
    >>> compound(["2h 50m", "19h", "1 hr, 5 mins", "h"], COMPOUNDS["seconds"]).tolist()
    [10200.0, 68400.0, 3900.0, nan]
    """
    names = sorted({name for one in worth for name in (one, f"{one}s")}, key=len, reverse=True)
    part = re.compile(rf"(\d+(?:[.,]\d+)?)\s*({'|'.join(map(re.escape, names))})(?![a-z])\.?,?\s*")
    trailing = re.compile(r"(\d+(?:\.\d+)?)$") if "'" in worth else None
    found = np.full(len(texts), np.nan)
    for place, text in enumerate(texts):
        rest, total = text.strip().lower(), 0.0
        at = 0
        while match := part.match(rest, at):
            unit = match[2] if match[2] in worth else match[2][:-1]
            total += float(match[1].replace(",", ".")) * worth[unit]
            at = match.end()
        # 5'11 leaves out the sign of inches.
        if at and trailing and (match := trailing.match(rest, at)):
            total, at = total + float(match[1]), match.end()
        if at and at == len(rest):
            found[place] = total
    return found


def times(texts: Sequence[str]) -> np.ndarray:
    """Times of day, and times that passed, in seconds.

    Examples
    --------
    >>> times(["18.00.00", "8:05", "12:30 AM", "8.05"]).tolist()
    [64800.0, 29100.0, 1800.0, nan]
    """
    found = np.full(len(texts), np.nan)
    for place, text in enumerate(texts):
        match = _TIME.fullmatch(text.strip())
        # 8.05 is a number.
        if match is None or (match["sep"] == "." and match["second"] is None):
            continue
        hour = _hour(int(match["hour"]), match["half"])
        if hour is not None:
            found[place] = hour * 3600 + int(match["minute"]) * 60 + int(match["second"] or 0)
    return found


def _hour(hour: int, half: str | None) -> int | None:
    if half is None:
        return hour
    return None if not 1 <= hour <= 12 else hour % 12 + 12 * (half[0] in "pP")


class Dates:
    """Texts taken apart into the parts of dates, which one order after the other may read.

    Examples
    --------
    >>> found = Dates(["03/12/2017", "25/12/2017 08:30", "no date"])
    >>> [found.read(order).astype("datetime64[D]").astype(str).tolist() for order in ("dmy", "mdy")]
    [['2017-12-03', '2017-12-25', 'NaT'], ['2017-03-12', 'NaT', 'NaT']]
    """

    def __init__(self, texts: Sequence[str]) -> None:
        n = len(texts)
        # Three numbers each; 0 for a part that is not there, and digits of the first and last.
        self.parts = np.zeros((n, 3), dtype=np.int64)
        self.digits = np.zeros((n, 2), dtype=np.int64)
        self.micros = np.zeros(n, dtype=np.int64)
        self.matched, self.named = np.zeros(n, dtype=bool), np.zeros(n, dtype=bool)
        self.separators: set[str] = set()
        # Texts that say themselves which part is which.
        self.forms = np.full(n, -1)
        for place, text in enumerate(texts):
            self._take(place, text.strip())

    def _take(self, place: int, text: str) -> None:
        for form, pattern in enumerate(_DATES):
            match = pattern.fullmatch(text)
            if match is None:
                continue
            found = match.groupdict()
            middle = found["b"]
            month = int(middle) if middle.isdigit() else _month(middle)
            micros = _clock(found)
            if month is None or micros is None:
                continue
            first, last = found.get("a") or "", found["c"]
            self.parts[place] = int(first or 1), month, int(last)
            self.digits[place] = len(first), len(last)
            self.micros[place] = micros
            self.matched[place], self.forms[place] = True, form
            self.named[place] = not middle.isdigit()
            self.separators.add(found.get("sep") or "")
            return

    def read(self, order: str) -> np.ndarray:
        """The dates as datetime64[us] in an order: "dmy", "mdy" or "ymd"; NaT where it is none."""
        a, b, c = self.parts.T
        first, last = self.digits.T
        year_first = (self.forms <= 1) & (first == 4)
        fixed = (self.forms > 1) | self.named
        year, month, day = c.copy(), b.copy(), a.copy()
        year[year_first], day[year_first] = a[year_first], c[year_first]
        free = ~year_first & ~fixed
        if order == "mdy":
            month[free], day[free] = a[free], b[free]
        short = free & (last == 2) & (first == 2)
        wrong = free & (last == 1)
        if order == "ymd":
            year[short], day[short] = a[short], c[short]
            wrong |= free & ~short
        two = (year < 100) & ~wrong
        year[two] += np.where(year[two] <= _PIVOT, 2000, 1900)
        ok = self.matched & ~wrong & (month >= 1) & (month <= 12) & (day >= 1) & (day <= 31)
        ok &= (year >= 1000) & (year < 3000)
        months = (np.where(ok, year, 1970) - 1970) * 12 + np.where(ok, month, 1) - 1
        start = months.astype("datetime64[M]")
        days = start.astype("datetime64[D]") + (np.where(ok, day, 1) - 1)
        ok &= days.astype("datetime64[M]") == start
        found = days.astype("datetime64[us]") + self.micros.astype("timedelta64[us]")
        found[~ok] = np.datetime64("NaT")
        return found


def _month(name: str) -> int | None:
    name = name.lower()
    return _MONTH.get(name) or _MONTH.get(name[:3]) if name[:3].isalpha() else None


def _clock(found: Mapping[str, str | None]) -> int | None:
    """Microseconds of the time of day after a date; None if there is no such time."""
    if found["hour"] is None:
        return 0
    hour = _hour(int(found["hour"]), found["half"])
    minute, second = int(found["minute"] or 0), int(found["second"] or 0)
    if hour is None or hour > 24 or minute > 59 or second > 60:
        return None
    micros = int((found["fraction"] or "").ljust(6, "0")[:6])
    zone, ahead = found["zone"], 0
    if zone and zone[0] in "+-":
        ahead = int(zone[:3]) * 60 + int(zone[0] + zone[-2:])
    return ((hour * 60 + minute - ahead) * 60 + second) * 1_000_000 + micros
