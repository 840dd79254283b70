"""Two processes train the network that one would, and one of them writes."""

import json

import pytest

from nrs.training.processes import Processes, processes
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
    with pytest.raises(ValueError, match="start several processes with torchrun"), processes():
        pass


@pytest.mark.parametrize(
    ("device", "message"),
    [("cuda", "torch finds no GPU"), ("cuda:1", "torch finds no GPU"), ("gpu", "torch knows")],
)
def test_a_device_that_is_not_there_is_told(monkeypatch, device, message):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(ValueError, match=message), processes(device):
        pass
