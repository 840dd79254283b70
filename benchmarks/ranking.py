"""How fast rankers train beside one query a step, in how much memory, and how fast LETOR is read.

    python -m benchmarks.ranking --json results/ranking.json
    python -m benchmarks.ranking --reading

Training: documents a second of one epoch of the paper's ranking function (NRS with n_mul 2, one
layer, sigmoid output) on queries of about 120 documents with 136 features.

- *Loop*: a query a step, as the paper's code base trains: the layer as a grouped convolution over
  the gathered input, each loss over all pairs of one query, plain Adam, the loss read every step.
- *Ours*: :func:`nrs.training.train` on batches of 64 queries of like length.

Before any clock is read, every loss of the loop is compared with ours on the same scores.

Memory: the peak of an epoch of RankNet, whose pairs need most, on queries of 120 documents, then
with one query of 1,200 among them.

Reading: a file of dense and sparse lines with comments, by parts (:func:`nrs.datasets.iter_letor`),
beside scikit-learn's reader of its first 100 MB, which it holds as a whole; peak memory of each
process. Both have the allocator as users have it.
"""

from __future__ import annotations

import argparse
import math
import resource
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.layer import AuthorsLayer
from benchmarks.measure import (
    PLAIN,
    ROOT,
    in_fresh_process,
    in_plain_process,
    interleaved,
    median_over,
    median_ratio,
    provenance,
    table,
    write_json,
)
from nrs.datasets import iter_letor
from nrs.ranking.batches import QueryBatch, QueryBatches, QueryRows
from nrs.ranking.losses import LOSSES
from nrs.ranking.queries import group_queries
from nrs.tabular import TableNetwork
from nrs.training import TrainSettings, train

SEED = 0
FEATURES = 136
LENGTH = 120
BATCH = 64
LONGEST = 1_200
# Of the file that is read, what scikit-learn reads: it holds all of it.
PART_MEGABYTES = 100.0
SPEED_TARGET, READ_TARGET, MEMORY_TARGET = 5.0, 3.0, 500.0


# Training.


def mslr_like(queries: int, length: int = LENGTH, longest: int = 0) -> QueryRows:
    """Queries of the form of MSLR's: about `length` documents, 136 features, grades 0 to 4."""
    generator = np.random.default_rng(SEED)
    lengths = generator.integers(round(0.7 * length), round(1.3 * length) + 1, queries)
    if longest:
        lengths[0] = longest
    qid = np.repeat(np.arange(queries), lengths)
    x = generator.normal(size=(len(qid), FEATURES)).astype(np.float32)
    y = np.digitize(x[:, :5].sum(1) + generator.normal(size=len(qid)), [0.5, 2.5, 5, 6.5])
    return QueryRows(x, y.astype(np.float32), group_queries(qid))


def network() -> TableNetwork:
    """The paper's ranking function with NRS."""
    return TableNetwork(FEATURES, 1, n_mul=2, hidden=(), dropout=0.01, seed=SEED)


def authors_network() -> nn.Module:
    """The same with the layer as the authors write it."""
    ours = network()
    assert ours.subspaces is not None
    return nn.Sequential(AuthorsLayer(ours.subspaces), nn.Dropout(0.01), ours.layers[-1])


def loop_epoch(module: nn.Module, rows: QueryRows, name: str) -> None:
    """An epoch of one query a step."""
    loss_of = LOOP_LOSSES[name]
    optimizer = torch.optim.Adam(module.parameters(), lr=1e-3, weight_decay=1e-3)
    module.train()
    for query in np.random.default_rng(SEED).permutation(len(rows.queries)):
        batch = rows.batch(np.array([query]))
        scores = torch.sigmoid(module(batch.x)).view(1, -1)
        loss = loss_of(scores, batch.y.view(1, -1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        loss.item()


def our_epoch(module: nn.Module, rows: QueryRows, name: str, batch_size: int = BATCH) -> None:
    """An epoch of the package's own loop."""
    loss_of = LOSSES[name]

    def step(module: nn.Module, batch: QueryBatch) -> Tensor:
        scores = batch.padded(torch.sigmoid(module(batch.x)[:, 0]))
        return loss_of(scores, batch.padded(batch.y), batch.mask())

    settings = TrainSettings(epochs=1, lr=1e-3, optimizer="adam", weight_decay=1e-3)
    generator = torch.Generator().manual_seed(SEED)
    train(module, QueryBatches(rows, batch_size), step, settings, generator=generator)


def measure_training(name: str, queries: int, turns: int) -> dict[str, float]:
    """CPU seconds of an epoch of each side, and the documents in it."""
    rows = mslr_like(queries)
    ours, theirs = network(), authors_network()
    times = interleaved(
        {
            "loop": lambda: loop_epoch(theirs, rows, name),
            "ours": lambda: our_epoch(ours, rows, name),
        },
        seconds=0,
        at_least=turns,
    )
    return times | {"documents": float(len(rows))}


def compare_losses() -> dict[str, float]:
    """The largest difference of each loss of the loop from ours, relative to its size."""
    rows = mslr_like(4, length=30)
    generator = torch.Generator().manual_seed(SEED)
    found = {}
    for name, loss_of in LOOP_LOSSES.items():
        differences = []
        for query in range(4):
            batch = rows.batch(np.array([query]))
            scores = torch.rand(1, len(batch.y), generator=generator, dtype=torch.float64)
            labels = batch.y.view(1, -1).double()
            ours, theirs = LOSSES[name](scores, labels), loss_of(scores, labels)
            differences.append(abs(float(ours - theirs)) / max(1.0, abs(float(ours))))
        found[name] = max(differences)
    return found


# The losses of one query, as a code base of one query a step writes them: over all pairs.


def _ranknet(s: Tensor, y: Tensor) -> Tensor:
    difference = s[:, :, None] - s[:, None, :]
    order = torch.clamp(y[:, :, None] - y[:, None, :], -1, 1)
    terms = 0.5 * (1 - order) * difference + F.softplus(-difference)
    return torch.triu(terms, diagonal=1).sum()


def _listnet(s: Tensor, y: Tensor) -> Tensor:
    return -(F.softmax(y, 1) * F.log_softmax(s, 1)).sum()


def _rank_cosine(s: Tensor, y: Tensor) -> Tensor:
    return (1 - F.cosine_similarity(s, y)).sum() / 2


def _ideal(y: Tensor) -> Tensor:
    best = (2**y - 1).sort(descending=True).values
    return (best / torch.log2(torch.arange(2, y.shape[1] + 2).to(y))).sum()


def _approx_ndcg(s: Tensor, y: Tensor) -> Tensor:
    ranks = torch.sigmoid(10 * (s[:, None, :] - s[:, :, None])).sum(2) + 0.5
    return -((2**y - 1) / torch.log2(1 + ranks)).sum() / _ideal(y)


def _wass_rank(s: Tensor, y: Tensor, epsilon: float = 0.1) -> Tensor:
    """Stabilised Sinkhorn by matrix products; the potentials serve as the gradient."""
    with torch.no_grad():
        gains = 2 ** y[0] - 1
        gaps = torch.where(gains > 0, gains, -100.0)
        cost = (gaps[:, None] - gaps).abs()
        cost = torch.where(y[0][:, None] == y[0], math.e, cost).fill_diagonal_(0)
        kernel = torch.exp(-cost / epsilon)
        log_a, log_b = F.log_softmax(s[0], 0), F.log_softmax(y[0], 0)
        log_u = torch.zeros_like(log_a)
        for _ in range(50):
            top = log_u.max()
            log_v = log_b - torch.log(kernel.t() @ torch.exp(log_u - top)) - top
            top = log_v.max()
            log_u = log_a - torch.log(kernel @ torch.exp(log_v - top)) - top
        value = epsilon * ((log_a.exp() * log_u).sum() + (log_b.exp() * log_v).sum())
    guide = epsilon * (F.softmax(s[0], 0) * (log_u - log_u.mean())).sum()
    return guide + (value - guide).detach()


def _urank(s: Tensor, y: Tensor) -> Tensor:
    rivals = y[:, None, :] < y[:, :, None]
    rivals = rivals | torch.eye(y.shape[1], dtype=torch.bool)
    against = torch.where(rivals, s[:, None, :], -torch.inf).logsumexp(2)
    return ((2**y - 1) * (against - s)).sum()


def _lambdarank(s: Tensor, y: Tensor) -> Tensor:
    order = s.argsort(descending=True)
    y = y.gather(1, order)
    s = s.gather(1, order)
    gains = 2**y - 1
    discount = 1 / torch.log2(torch.arange(2, y.shape[1] + 2).to(y))[None]
    change = (gains[:, :, None] - gains[:, None, :]).abs()
    change = change * (discount[:, :, None] - discount[:, None, :]).abs() / _ideal(y)
    terms = change * F.softplus(-(s[:, :, None] - s[:, None, :]))
    return terms[y[:, :, None] > y[:, None, :]].sum() / math.log(2)


LOOP_LOSSES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "ranknet": _ranknet,
    "listnet": _listnet,
    "approx_ndcg": _approx_ndcg,
    "rank_cosine": _rank_cosine,
    "wass_rank": _wass_rank,
    "urank": _urank,
    "lambdarank": _lambdarank,
}


def training(processes: int, queries: int, turns: int) -> dict[str, Any]:
    """Compare the losses, then measure epochs in fresh processes."""
    differences = in_fresh_process(compare_losses)
    wrong = {name: value for name, value in differences.items() if not value < 1e-5}
    if wrong:
        raise AssertionError(f"the loop's losses must equal ours, however: {wrong}")
    report: dict[str, Any] = {"differences": differences, "target": SPEED_TARGET, "losses": {}}
    for name in LOSSES:
        arguments = {"name": name, "queries": queries, "turns": turns}
        runs = [in_fresh_process(measure_training, **arguments) for _ in range(processes)]
        seconds = median_over(runs)
        report["losses"][name] = {
            "documents": seconds["documents"],
            "loop_documents_per_s": seconds["documents"] / seconds["loop"],
            "ours_documents_per_s": seconds["documents"] / seconds["ours"],
            "ratio": median_ratio(runs, "loop", "ours"),
            "runs": runs,
        }
    return report


# Memory.


def peak_memory(longest: int, batch_size: int, queries: int = 256) -> dict[str, float]:
    """Peak MB of an epoch of RankNet above what the data and the network take."""
    rows = mslr_like(queries, longest=longest)
    module = network()
    before = _peak_mb()
    our_epoch(module, rows, "ranknet", batch_size)
    return {"before_mb": before, "peak_mb": _peak_mb()}


def memory(queries: int) -> dict[str, Any]:
    """Peak memory with and without one long query, beside one tensor padded to the longest."""
    cases = {"queries of 120": 0, f"and one of {LONGEST}": LONGEST}
    report: dict[str, Any] = {"queries": queries, "batch": BATCH, "cases": {}}
    for case, longest in cases.items():
        found = in_fresh_process(peak_memory, longest=longest, batch_size=BATCH, queries=queries)
        report["cases"][case] = found | {"epoch_mb": found["peak_mb"] - found["before_mb"]}
    # One tensor of pairs, were every batch as long as the longest query.
    report["padded_to_longest_mb_a_tensor"] = BATCH * LONGEST**2 * 4 / 1e6
    return report


# Reading.


def write_text(path: str, megabytes: float) -> int:
    """Write a LETOR file of dense and sparse lines, a third with comments; returns its bytes."""
    generator = np.random.default_rng(SEED)
    scale = 10.0 ** generator.integers(-1, 4, FEATURES)
    lines = []
    for row in range(3_000):
        x = generator.normal(size=FEATURES) * scale
        # A third of MSLR's features are counts.
        x[::3] = np.abs(x[::3]).round()
        x[generator.random(FEATURES) < 0.37] = 0
        kept = range(FEATURES) if row % 2 else np.flatnonzero(x).tolist()
        pairs = " ".join(f"{k + 1}:{x[k]:.6f}".rstrip("0").rstrip(".") for k in kept)
        note = f" # docid = GX{row:06d} inc = 1 prob = 0.5" if row % 3 == 0 else ""
        lines.append(f"{generator.integers(5)} qid:{row // LENGTH} {pairs}{note}\n")
    block = "".join(lines).encode()
    with open(path, "wb") as file:
        while file.tell() < megabytes * 1e6:
            file.write(block)
        return file.tell()


def read_ours(path: str) -> dict[str, float]:
    """CPU seconds, rows and peak memory of reading a file by parts."""
    before = _peak_mb()
    started = time.process_time()
    rows, total = 0, 0.0
    for part in iter_letor(path, n_features=FEATURES):
        rows += len(part.y)
        total += float(part.X.sum(dtype=np.float64))
    seconds = time.process_time() - started
    return {"seconds": seconds, "rows": rows, "sum": total, "before_mb": before} | _peak()


def read_sklearn(path: str) -> dict[str, float]:
    """The same of scikit-learn's reader, which holds the whole file."""
    from sklearn.datasets import load_svmlight_file

    before = _peak_mb()
    started = time.process_time()
    X, _, _ = load_svmlight_file(
        path, n_features=FEATURES, dtype=np.float32, zero_based=False, query_id=True
    )
    seconds = time.process_time() - started
    total = float(X.data.sum(dtype=np.float64))
    return {"seconds": seconds, "rows": X.shape[0], "sum": total, "before_mb": before} | _peak()


def copy_part(path: str, part: str, megabytes: float) -> int:
    """Copy the first lines of a file, about so many megabytes; returns their bytes."""
    with open(path, "rb") as file, open(part, "wb") as out:
        for line in file:
            out.write(line)
            if out.tell() >= megabytes * 1e6:
                break
        return out.tell()


def reading(
    megabytes: float, processes: int, part_megabytes: float = PART_MEGABYTES
) -> dict[str, Any]:
    """Write a file, read it and its first part in fresh processes, and take it away again."""
    with tempfile.TemporaryDirectory() as folder:
        path, part = (str(Path(folder) / name) for name in ("letor.txt", "part.txt"))
        size = write_text(path, megabytes)
        part_size = copy_part(path, part, part_megabytes)
        check = in_plain_process(read_ours, path=part)
        ours, theirs = [], []
        for _ in range(processes):
            ours.append(in_plain_process(read_ours, path=path))
            theirs.append(in_plain_process(read_sklearn, path=part))
    same = check["rows"] == theirs[0]["rows"] and math.isclose(
        check["sum"], theirs[0]["sum"], rel_tol=1e-6
    )
    if not same:
        raise AssertionError(f"both must read the same numbers, however: {check}, {theirs[0]}")
    speeds = [
        (size / 1e6 / a["seconds"], part_size / 1e6 / b["seconds"])
        for a, b in zip(ours, theirs, strict=True)
    ]
    return {
        "environment": PLAIN,
        "bytes": size,
        "sklearn_bytes": part_size,
        "ours": ours,
        "sklearn": theirs,
        "ours_mb_per_s": statistics.median(a for a, _ in speeds),
        "sklearn_mb_per_s": statistics.median(b for _, b in speeds),
        "ratio": statistics.median(a / b for a, b in speeds),
        "ours_peak_mb": max(run["peak_mb"] for run in ours),
        "sklearn_peak_mb": max(run["peak_mb"] for run in theirs),
        "target": READ_TARGET,
        "memory_target_mb": MEMORY_TARGET,
    }


def show(report: dict[str, Any]) -> str:
    """The tables of a report, in markdown."""
    parts = []
    if "training" in report:
        rows = [
            [name, found["loop_documents_per_s"], found["ours_documents_per_s"], found["ratio"]]
            for name, found in report["training"]["losses"].items()
        ]
        columns = ["loss", "loop docs/s", "ours docs/s", "× ours"]
        parts += ["**Training, documents a CPU second**", table(columns, rows)]
    if "memory" in report:
        found = report["memory"]
        rows = [[case, values["epoch_mb"]] for case, values in found["cases"].items()]
        rows.append(["one tensor, padded to the longest", found["padded_to_longest_mb_a_tensor"]])
        parts += ["**Peak memory of an epoch, MB**", table(["data", "MB"], rows)]
    if "reading" in report:
        found = report["reading"]
        rows = [
            [name, found[size] / 1e6, found[f"{name}_mb_per_s"], found[f"{name}_peak_mb"]]
            for name, size in (("sklearn", "sklearn_bytes"), ("ours", "bytes"))
        ]
        parts += [
            f"**Reading LETOR text: {found['ratio']:.2f} times as fast**",
            table(["reader", "MB of text", "MB a CPU second", "peak MB"], rows),
        ]
    return "\n\n".join(parts)


def main() -> None:
    parser = argparse.ArgumentParser(description="Rankers beside one query a step; reading LETOR.")
    parser.add_argument("--only", choices=["training", "memory", "reading"])
    parser.add_argument("--processes", type=int, default=3, help="fresh processes")
    parser.add_argument(
        "--reading",
        action="store_true",
        help="only reading, of 2 GB, into results/ranking_reading.json",
    )
    parser.add_argument("--gigabytes", type=float, default=0.05, help="of the file that is read")
    parser.add_argument("--quick", action="store_true", help="little data, for a first look")
    parser.add_argument("--json", type=Path, help="write the report to this file")
    arguments = parser.parse_args()
    if arguments.reading:
        parser.set_defaults(
            only="reading", gigabytes=2.0, json=ROOT / "results" / "ranking_reading.json"
        )
        arguments = parser.parse_args()
    queries = 64 if arguments.quick else 256
    processes = 1 if arguments.quick else arguments.processes
    report = provenance(processes=processes, queries=queries, batch=BATCH, length=LENGTH, seed=SEED)
    if arguments.only == "reading":
        report["environment"] = PLAIN
    if arguments.only in (None, "training"):
        report["training"] = training(processes, queries, turns=1 if arguments.quick else 3)
    if arguments.only in (None, "memory"):
        report["memory"] = memory(queries)
    if arguments.only in (None, "reading"):
        report["reading"] = reading(1000 * arguments.gigabytes, processes)
    print(show(report))
    if arguments.json:
        write_json(arguments.json, report)


def _peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


def _peak() -> dict[str, float]:
    return {"peak_mb": _peak_mb()}


if __name__ == "__main__":
    main()
