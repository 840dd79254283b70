"""The headline against a recount, and the sentences of the pages against the headline."""

import json
import re
from pathlib import Path

import pytest
from scipy import stats

from nrs.pages.markdown import row_anchor
from nrs.paper import Results, reported
from nrs.paper.headline import PEERS, headline, sentences
from nrs.paper.table import Cell, Subject

REPOSITORY = Path(__file__).parents[2]
RESULTS = REPOSITORY / "results"


def _write(folder, dataset, method, values):
    for seed, value in enumerate(values):
        record = {"status": "ok", "error": None, "metrics": {"accuracy": value}}
        Results(folder).write(Cell(Subject("accuracy", dataset, method), seed), record)


def _words(text):
    """Text without Markdown's links, marks and line breaks."""
    text = re.sub(r"\[([^\]]+)\]\([^)]*\)", r"\1", text)
    return " ".join(re.sub(r"[\\*`]", "", text).split())


def test_counts_nrs_cells_once_and_pairs_on_the_papers_sets(tmp_path):
    # Printed: letter 97.85 ± 0.10 (MLP 97.23, RF 96.14), sonar 92.06 ± 1.42 (MLP 88.89).
    _write(tmp_path, "letter", "NRS", [97.8, 97.9, 97.85, 97.8, 97.9])
    _write(tmp_path, "letter", "MLP", [97.8, 97.9, 97.85, 97.8, 97.9])
    _write(tmp_path, "letter", "RF", [96.0, 96.1, 96.2, 96.1, 96.1])
    _write(tmp_path, "sonar", "NRS", [80.0, 81.0, 80.5, 80.2, 80.1])
    _write(tmp_path, "sonar", "MLP", [88.0, 89.0, 88.5, 88.2, 88.1])
    _write(tmp_path, "SUSY-30k", "NRS", [79.0, 79.1, 79.2])
    _write(tmp_path, "SUSY-30k", "RF", [78.0, 78.1, 78.2])
    # Not the paper's network, and a single trial: neither is counted among the pairs.
    _write(tmp_path, "letter", "NRS searched head", [99.0, 99.1, 99.2])
    _write(tmp_path, "satimage", "NRS", [91.0])
    found = headline(tmp_path)
    assert (found.level, found.above, found.below) == (("letter",), (), ("sonar",))
    assert (found.pairs, found.printed) == ((1, 1, 1), (3, 0, 0))
    assert found.by_peer["MLP"] == (0, 1, 1)
    assert (found.searched, found.searched_rows) == ((1, 0, 0), ("letter",))
    assert (found.parts, found.part_rows) == ((1, 0, 0), ("SUSY-30k",))
    assert found.sets == ("satimage", "letter", "sonar", "SUSY")
    said = " ".join(sentences(found))
    assert "wins 1 of 3 pairs, ties 1 and loses 1, where the paper prints 3 wins" in said


def test_nothing_measured_says_nothing(tmp_path):
    assert sentences(headline(tmp_path)) == []


def _trials(dataset, method):
    """The numbers in the files of a cell, read without the package."""
    folder = RESULTS / "paper" / "accuracy" / dataset / method
    records = [json.loads(path.read_text("utf-8")) for path in sorted(folder.glob("seed-*.json"))]
    return [
        value
        for record in records
        if record["status"] == "ok"
        for value in record["parts"].get("accuracy", [record["metrics"].get("accuracy")])
    ]


def _place(p, difference):
    return "tie" if p >= 0.05 else "win" if difference > 0 else "lose"


def test_the_committed_headline_is_what_the_committed_cells_say():
    printed = {(row["dataset"], row["method"]): row for row in reported("accuracy")}
    against, pairs, on_paper = {"win": [], "tie": [], "lose": []}, [], []
    for dataset in dict.fromkeys(name for name, _ in printed):
        ours = _trials(dataset, "NRS")
        if dataset == "SARCOS" or len(ours) < 2:
            continue
        n = 10 if dataset == "yeast" else 5
        own = [float(printed[dataset, "NRS"][key]) for key in ("mean", "std")]
        mean = sum(ours) / len(ours)
        if dataset not in ("glass", "poker"):
            std = stats.tstd(ours)
            p = stats.ttest_ind_from_stats(mean, std, len(ours), *own, n).pvalue
            rounded = abs(mean - own[0]) <= 0.005
            against["tie" if rounded else _place(p, mean - own[0])].append(dataset)
        for peer in PEERS:
            theirs = _trials(dataset, peer)
            row = printed[dataset, peer]
            if len(theirs) < 2 or not row["mean"]:
                continue
            p = stats.ttest_ind(ours, theirs).pvalue
            pairs.append(_place(p, mean - sum(theirs) / len(theirs)))
            other = [float(row[key]) for key in ("mean", "std")]
            p = stats.ttest_ind_from_stats(*own, n, *other, n).pvalue
            on_paper.append(_place(p, own[0] - other[0]))
    found = headline(RESULTS)
    merged = {name for name in (*found.level, *found.above, *found.below) if "merged" in name}
    assert set(found.level) - merged == set(against["tie"])
    assert set(found.above) - merged == set(against["win"])
    assert set(found.below) - merged == set(against["lose"])
    assert found.pairs == tuple(pairs.count(word) for word in ("win", "tie", "lose"))
    assert found.printed == tuple(on_paper.count(word) for word in ("win", "tie", "lose"))


PAGES = ["README.md", "results/README.md", "results/report/report.md"]
# The README quotes these sentences, by how they begin; the other pages quote all.
QUOTED = ("Against its five peers", "Average ranks")


@pytest.mark.parametrize("page", PAGES)
def test_sentences_of_the_pages_are_those_of_the_cells(page):
    text = _words((REPOSITORY / page).read_text("utf-8"))
    found = sentences(headline(RESULTS))
    said = [one for one in found if page != "README.md" or one.startswith(QUOTED)]
    assert len(said) in (len(QUOTED), len(found))
    for sentence in said:
        assert _words(sentence) in text, f"{page} does not say: {sentence}"


@pytest.mark.parametrize("page", PAGES[:2])
def test_links_lead_to_rows_of_the_report(page):
    report = (RESULTS / "report" / "report.md").read_text("utf-8")
    anchors = re.findall(r'<a id="([^"]+)"></a>', report)
    assert len(anchors) == len(set(anchors))
    links = re.findall(r"report/report\.md#([\w-]+)", (REPOSITORY / page).read_text("utf-8"))
    assert links
    assert set(links) <= set(anchors)


def test_every_sentence_of_the_headline_links_to_its_rows():
    text = (RESULTS / "README.md").read_text("utf-8")
    paragraph = text.partition("What was measured so far")[2].partition("\n\n")[0]
    said = re.split(r"(?<=[.])\s+(?=[A-Z\[])", paragraph.partition("NRS has cells")[2])
    assert len(said) == len(sentences(headline(RESULTS)))
    assert all("report/report.md#accuracy" in sentence for sentence in said[1:]), said
    found = headline(RESULTS)
    for row in (*found.above, *found.below, *found.searched_rows, *found.part_rows):
        link = f"[{row}](report/report.md#{row_anchor('accuracy', row)})"
        assert link in paragraph, row


def test_the_compared_cells_of_nrs_have_two_layers():
    for path in sorted((RESULTS / "paper" / "accuracy").glob("*/NRS/seed-*.json")):
        record = json.loads(path.read_text("utf-8"))
        if record["status"] == "ok":
            assert len(record["settings"]["used"]["hidden"]) == 2, path
