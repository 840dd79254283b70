"""The report of what was measured: collected, drawn, and written as a page."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from pathlib import Path

from nrs.paper.collect import RULE, collect, scores_of
from nrs.paper.environment import environment
from nrs.paper.headline import headline, sentences
from nrs.paper.registry import find_table
from nrs.paper.statistics import draw_critical_differences

_log = logging.getLogger(__name__)


def write(
    out: str | os.PathLike[str],
    results: str | os.PathLike[str] = "results",
    names: Sequence[str] | None = None,
) -> list[Path]:
    """Write the report of tables into a folder, made if need be; gives the files in it.

    Raises FileNotFoundError if there are no results.
    """
    from nrs.pages.agreement import Tolerance
    from nrs.pages.paper_report import write_report

    if not (Path(results) / "paper").is_dir():
        raise FileNotFoundError(
            f"results must be a folder that 'nrs paper run' has written, however: "
            f"{Path(results)} has no folder 'paper'"
        )
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    pages = collect(results, names)
    said = " ".join(sentences(headline(results)))
    for page in pages:
        if page["name"] == "accuracy":
            page["verdict"] = " ".join(part for part in (page["verdict"], said) if part)
        measured = page["statistics"]
        for kind, found in (("measured", measured), ("reported", measured.get("reported", {}))):
            if "average_ranks" not in found:
                continue
            scores = scores_of(find_table(page["name"]), page["cells"], kind)
            try:
                picture = folder / f"critical-difference-{page['name']}-{kind}.png"
                draw_critical_differences(scores, picture)
            except ImportError as error:
                _log.warning("no critical-difference diagram: %s", error)
    # Every cell brings the allowed difference of its own trials.
    rule = Tolerance(points=0.0, deviations=0.0, rule=RULE)
    write_report(pages, folder, environment=environment(), tolerance=rule, lead=said)
    return sorted(path for path in folder.iterdir() if path.is_file())
