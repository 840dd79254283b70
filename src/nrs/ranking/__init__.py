"""Learning to rank: losses, metrics, the ranker."""

from nrs.ranking.metrics import measure
from nrs.ranking.ranker import NRSRanker

__all__ = ["NRSRanker", "measure"]
