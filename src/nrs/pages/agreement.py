"""When a measured value agrees with a reported one."""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass

# 91.52 - 90.02 is a hair more than 1.5 in binary; as printed it is 1.5.
_ROUNDING = 1e-9
# Beyond this many times the allowed difference a value is far off.
FAR = 2.0


class Agreement(enum.Enum):
    """How a measured value stands to the reported one: its name, its symbol, what it means."""

    AGREES = ("agrees", "✓", "agrees with the paper")
    BETTER = ("better", "▲", "better than the paper")
    FAR_BETTER = ("far-better", "▲▲", "far better than the paper")
    WORSE = ("worse", "▼", "worse than the paper")
    FAR_WORSE = ("far-worse", "▼▼", "far worse than the paper")
    DIFFERS = ("differs", "≠", "not the number the paper prints")
    UNCOMPARED = ("uncompared", "", "shown, not compared")

    def __init__(self, label: str, symbol: str, meaning: str) -> None:
        self.label = label
        self.symbol = symbol
        self.meaning = meaning


@dataclass(frozen=True)
class Tolerance:
    """Two means agree if they differ by at most max(`points`, `deviations` · combined std).

    The combined standard deviation is √(reported std² + measured std²); an absent one counts as 0.

    Parameters
    ----------
    points : allowed difference whatever the spread, in the units of the values.
    deviations : allowed difference in combined standard deviations.
    rule : the rule in words where every cell brings its own allowed difference.

    Examples
    --------
    >>> tolerance = Tolerance()
    >>> tolerance.allowed(0.3, 0.4), tolerance.allowed(3.0, 4.0)
    (1.5, 10.0)
    >>> tolerance.judge(91.5, 90.9).label, tolerance.judge(91.5, 94.0).label
    ('agrees', 'better')
    >>> tolerance.judge(91.5, 94.0, higher_is_better=False).label
    'worse'
    """

    points: float = 1.5
    deviations: float = 2.0
    rule: str = ""

    def __post_init__(self) -> None:
        for name in ("points", "deviations"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value >= 0):
                raise ValueError(f"{name} must be a number of at least 0, however: {name}={value}")

    def allowed(
        self, reported_std: float | None = None, measured_std: float | None = None
    ) -> float:
        """The largest difference that still agrees."""
        return max(self.points, self.deviations * math.hypot(reported_std or 0, measured_std or 0))

    def excess(
        self,
        reported: float,
        measured: float,
        reported_std: float | None = None,
        measured_std: float | None = None,
    ) -> float:
        """Measured minus reported, in units of the allowed difference."""
        difference = measured - reported
        if abs(difference) <= _ROUNDING:
            return 0.0
        allowed = self.allowed(reported_std, measured_std)
        return difference / allowed if allowed else math.copysign(math.inf, difference)

    def judge(
        self,
        reported: float,
        measured: float,
        reported_std: float | None = None,
        measured_std: float | None = None,
        *,
        higher_is_better: bool = True,
    ) -> Agreement:
        """Whether the two agree and, if they do not, which is better and by how much."""
        excess = self.excess(reported, measured, reported_std, measured_std)
        if abs(excess) <= 1 + _ROUNDING:
            return Agreement.AGREES
        far = abs(excess) > FAR + _ROUNDING
        if (excess > 0) == higher_is_better:
            return Agreement.FAR_BETTER if far else Agreement.BETTER
        return Agreement.FAR_WORSE if far else Agreement.WORSE

    def sentence(self) -> str:
        """The rule in words, for a reader of the page."""
        return self.rule or (
            "A cell agrees with the paper if |measured − reported| ≤ "
            f"max({self.points:g} points, {self.deviations:g} · combined standard deviation); "
            f"beyond {FAR:g} times that it is far off."
        )
