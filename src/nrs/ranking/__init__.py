"""Learning to rank: losses, metrics, the ranker."""

from typing import TYPE_CHECKING

from nrs._util.lazy import names_of

if TYPE_CHECKING:
    from nrs.ranking.metrics import measure
    from nrs.ranking.ranker import NRSRanker

__all__ = ["NRSRanker", "measure"]

__getattr__ = names_of(
    __name__, {"NRSRanker": "nrs.ranking.ranker", "measure": "nrs.ranking.metrics"}
)
