"""Two processes train the network that one would, and one of them writes."""

import json
import threading

import numpy as np
import pytest
import torch.distributed as dist

from nrs.training.processes import ALONE, Processes, joined, own_group, present, processes
from tests.forked import Forked, run_ranks

SCRIPT = """
import json, sys
import torch
from torch import nn
from nrs.training import RunSettings, TrainSettings, processes, train_network

class Data:
    def __init__(self, n):
        generator = torch.Generator().manual_seed(0)
        self.x = torch.randn(n, 4, generator=generator)
    def __len__(self):
        return len(self.x)
    def __getitem__(self, i):
        return self.x[i] + 0.1 * torch.randn(4), int(self.x[i, 0] > 0)

epochs = int(sys.argv[2])
with processes("cpu") as group:
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    history = train_network(
        network, Data(40), Data(13), TrainSettings(epochs=epochs, lr=0.1, optimizer="sgd"),
        RunSettings(batch_size=8), group=group, folder=sys.argv[1] + "/run", verbose=0,
    )
    name = f"{sys.argv[1]}/out-{group.size}-{group.rank}.json"
    with open(name, "w") as file:
        weights = [v for p in network.parameters() for v in p.flatten().tolist()]
        json.dump({"history": history.rows, "weights": weights}, file)
"""


def _run(folder, n, epochs=3):
    folder.mkdir(exist_ok=True)
    if n > 1:
        run_ranks(SCRIPT, n, folder, epochs)
    else:
        alone = Forked(SCRIPT, folder, epochs)
        said = alone.rest()
        assert alone.returncode == 0, said
    return [json.loads((folder / f"out-{n}-{rank}.json").read_text()) for rank in range(n)]


def _metrics(record):
    return [[row["top1"], row["class_mean"]] for row in record["history"]]


@pytest.mark.slow
def test_two_processes_train_what_one_does(tmp_path):
    (alone,) = _run(tmp_path / "one", 1)
    first, second = _run(tmp_path / "two", 2)
    # Every process ends with the same weights and metrics …
    assert first["weights"] == second["weights"]
    assert _metrics(first) == _metrics(second)
    # … which are those of one process up to the order of sums.
    assert first["weights"] == pytest.approx(alone["weights"], abs=1e-5)
    assert _metrics(alone) == _metrics(first)
    assert [r["train_loss"] for r in first["history"]] == pytest.approx(
        [r["train_loss"] for r in alone["history"]], abs=1e-5
    )
    # A finished run started again only reads, in every process.
    again = _run(tmp_path / "two", 2)
    assert [record["weights"] for record in again] == [first["weights"]] * 2


ADOPTING = """
import sys
import numpy as np
import torch
import torch.distributed as dist
from nrs import NRSClassifier
from nrs.training import processes
from nrs.training.processes import ALONE, joined, present

folder, rank = sys.argv[1], int(sys.argv[2])
dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2)
rng = np.random.default_rng(0)
X = rng.normal(size=(120, 4))
y = (X[:, 0] > 0).astype(int)
QUICK = {"preset": "fast", "n_mul": 2, "hidden": 16, "epochs": 2, "verbose": 0}

def usable():
    total = torch.ones(1)
    dist.all_reduce(total)
    return total.item() == 2

# Without a seed each process would draw its own, were they not one group.
model = NRSClassifier(**QUICK).fit(X, y)
assert usable()
with processes("cpu") as group:
    assert (group.rank, group.size) == (rank, 2)
    with processes("cpu") as inner:
        assert inner == group
    within = NRSClassifier(**QUICK).fit(X, y)
assert usable()
try:
    NRSClassifier(**QUICK | {"hidden": -1}).fit(X, y)
except ValueError:
    assert usable()
else:
    raise AssertionError
assert present().size == 2
if rank == 1:
    # By itself, while the other one does something else.
    with joined(ALONE):
        assert present() is ALONE
        alone = NRSClassifier(random_state=0, **QUICK).fit(X, y)
        try:
            NRSClassifier(random_state=0, n_workers=2, **QUICK).fit(X, y)
        except ValueError as error:
            assert "torch.distributed is initialised already" in str(error)
        else:
            raise AssertionError
assert usable()
np.savez(f"{folder}/{rank}.npz", model.predict_proba(X), within.predict_proba(X))
dist.destroy_process_group()
assert present() is ALONE
"""


def test_a_process_group_of_the_caller_is_adopted_and_left(tmp_path):
    started = [Forked(ADOPTING, tmp_path, rank) for rank in range(2)]
    said = ["".join(process.rest()) for process in started]
    assert [process.returncode for process in started] == [0, 0], said
    first, second = (np.load(tmp_path / f"{rank}.npz") for rank in range(2))
    for name in first.files:
        assert np.array_equal(first[name], second[name])


def test_a_group_of_one_process_is_adopted(tmp_path):
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    try:
        assert present() == ALONE
        with processes("cpu") as group:
            assert group == ALONE
        assert dist.is_initialized()
    finally:
        dist.destroy_process_group()


def test_a_group_of_our_own_is_not_for_other_threads(tmp_path):
    store, seen = f"file://{tmp_path}/store", []
    with own_group():
        dist.init_process_group("gloo", init_method=store, rank=0, world_size=1)
        with joined(Processes(0, 2)):
            thread = threading.Thread(target=lambda: seen.append(present()))
            thread.start()
            thread.join()
            assert present().size == 2
    assert seen == [ALONE]
    assert seen[0] is ALONE
    assert not dist.is_initialized()


def test_alone_nothing_is_divided(monkeypatch):
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"):
        monkeypatch.delenv(name, raising=False)
    with processes("cpu") as group:
        assert group == Processes()
        assert group.is_writer
        assert group.mean_loss(3.0) == 3.0
        assert not group.any(False)


def test_shares_are_a_partition():
    items = list(range(11))
    parts = [Processes(rank, 3).share(items) for rank in range(3)]
    assert sorted(item for part in parts for item in part) == items


def test_a_wrong_environment_is_told(monkeypatch):
    monkeypatch.setenv("RANK", "2")
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(ValueError, match="Start several processes with torchrun"), processes():
        pass


@pytest.mark.parametrize(
    ("device", "message"),
    [("cuda", "torch finds no GPU"), ("cuda:1", "torch finds no GPU"), ("gpu", "torch knows")],
)
def test_a_device_that_is_not_there_is_told(monkeypatch, device, message):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(ValueError, match=message), processes(device):
        pass
