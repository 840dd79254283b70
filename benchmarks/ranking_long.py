"""Peak memory of a whole fit and prediction with one query of 20,000 documents, for every loss.

    python -m benchmarks.ranking_long --json results/ranking_long.json

The query stands among 40 queries of about 120 documents; documents have 136 features, as those of
MSLR. One epoch of the default forest of `NRSRanker` and of the paper's network, out-of-bag scores
included, then a prediction of all documents; in a process of its own with one thread and the
allocator as users have it. Memory is the peak of the process, packages included; the second epoch
of a fit takes no more than the first. Finished cells of the JSON file are not measured again.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measure import Planned, measure_cells, table
from nrs.ranking.losses import LOSSES

DOCUMENTS, QUERIES, FEATURES = 20_000, 40, 136
PRESETS = ("default", "paper")
LIMIT_MB = 1_000


def measure_fit(preset: str, loss: str, documents: int) -> dict[str, float]:
    """CPU seconds, and the peak MB before the fit, after it and after a prediction."""
    from nrs import NRSRanker

    generator = np.random.default_rng(0)
    lengths = [documents, *generator.integers(80, 161, QUERIES)]
    qid = np.repeat(np.arange(len(lengths)), lengths)
    X = generator.normal(size=(len(qid), FEATURES)).astype(np.float32)
    y = np.digitize(X[:, :5].sum(1) + generator.normal(size=len(qid)), [0.5, 2.5, 5, 6.5])
    found = {"before_mb": _peak_mb()}
    begin = time.process_time()
    model = NRSRanker(preset=preset, loss=loss, epochs=1, random_state=0, n_jobs=1, verbose=0)
    model.fit(X, y, qid=qid)
    found |= {"fit_mb": _peak_mb(), "fit_s": time.process_time() - begin}
    scores = model.predict(X)
    assert np.isfinite(scores).all()
    return found | {"predict_mb": _peak_mb()}


def _peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


def plan(documents: int, losses: Sequence[str]) -> Iterator[Planned]:
    """Every loss with each preset."""
    for preset in PRESETS:
        for loss in losses:
            cell = {"preset": preset, "loss": loss, "documents": documents}
            yield cell, measure_fit, cell


def summary(cells: list[dict[str, Any]]) -> str:
    """A row for each loss, and the largest peak."""
    columns = ["before_mb", "fit_mb", "predict_mb", "fit_s"]
    rows = [[cell["preset"], cell["loss"], *(cell[name] for name in columns)] for cell in cells]
    most = max(cell["predict_mb"] for cell in cells)
    shown = table(["preset", "loss", "MB before", "MB fit", "MB predict", "CPU s of the fit"], rows)
    return f"{shown}\n\nlargest peak: {most:.0f} MB of {LIMIT_MB}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=int, default=DOCUMENTS)
    parser.add_argument("--losses", nargs="*", default=list(LOSSES))
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    planned = plan(chosen.documents, chosen.losses)
    print(summary(measure_cells(chosen.json, planned, features=FEATURES)))


if __name__ == "__main__":
    main()
