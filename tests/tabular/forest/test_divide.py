"""A forest that several processes train is the one that a single process trains."""

import json

import pytest
import torch
from sklearn.datasets import make_classification

from nrs import NRSClassifier
from nrs.tabular.forest.bins import PiecewiseLinear
from nrs.tabular.forest.divide import take_members
from nrs.tabular.forest.network import ForestNetwork
from tests.forked import Forked

TINY = {"preset": "fast", "n_mul": 2, "hidden": 16, "random_state": 0, "verbose": 0}
SCRIPT = """
import json, sys
from pathlib import Path
import torch
import torch.distributed as dist
from sklearn.datasets import make_classification
from nrs import NRSClassifier
from nrs.tabular.model import ForestModel
from nrs.training.processes import Processes, joined, present

losses = []

class RecordingModel(ForestModel):
    def loss(self, network, batch):
        loss = super().loss(network, batch)
        group = present()
        losses.append(group.sum({"loss": loss.item()})["loss"] / group.size)
        return loss

class Recording(NRSClassifier):
    def model_type(self, recipe):
        return RecordingModel

def fit(**settings):
    X, y = make_classification(210, 8, n_classes=3, n_informative=5, random_state=0)
    weights = torch.linspace(0.5, 1.5, 210).numpy()
    model = Recording(
        preset="fast", n_mul=2, hidden=16, epochs=13, batch_size=64, random_state=0, verbose=0,
        **settings,
    )
    losses.clear()
    model.fit(X, y, sample_weight=weights)
    state = {name: t.tolist() for name, t in model.network_.state_dict().items()}
    found = {"losses": list(losses), "state": state, "oob": model.oob_score_}
    found["history"] = [[row["train_loss"], row["score"]] for row in model.history_.rows]
    return found

folder, rank = Path(sys.argv[1]), int(sys.argv[2])
found = {}
if rank == 0:
    found["alone"] = {"rows": fit(dropout=0.0), "members": fit()}
store = dist.FileStore(str(folder / "store"), 2)
dist.init_process_group("gloo", store=store, rank=rank, world_size=2)
with joined(Processes(rank, 2)):
    found["rows"] = fit(dropout=0.0, divide="rows")
    found["members"] = fit()  # divided by itself
(folder / f"found-{rank}.json").write_text(json.dumps(found))
dist.destroy_process_group()
"""


@pytest.fixture(scope="module")
def together(tmp_path_factory):
    folder = tmp_path_factory.mktemp("together")
    runs = [Forked(SCRIPT, folder, rank) for rank in range(2)]
    said = ["".join(run.rest()) for run in runs]
    assert [run.returncode for run in runs] == [0, 0], "\n".join(said)
    return [json.loads((folder / f"found-{rank}.json").read_text()) for rank in range(2)]


def test_two_processes_that_share_rows_have_the_loss_of_one(together):
    alone = together[0]["alone"]["rows"]
    first, second = (found["rows"] for found in together)
    assert len(alone["losses"]) >= 50
    assert first["losses"] == pytest.approx(alone["losses"], abs=1e-4)
    assert first["losses"] == second["losses"]
    assert first["state"] == second["state"]
    assert first["history"] == second["history"]
    assert first["oob"] == pytest.approx(alone["oob"], abs=0.02)


def test_members_of_two_processes_are_those_of_one_bit_by_bit(together):
    alone = together[0]["alone"]["members"]
    first, second = (found["members"] for found in together)
    assert first["state"] == alone["state"]
    assert second["state"] == alone["state"]
    assert first["oob"] == alone["oob"]
    # The scores that decide when to stop are the same; a sum of losses has another order.
    for here, there in zip(first["history"], alone["history"], strict=True):
        assert here[1] == there[1]
        assert here[0] == pytest.approx(there[0], abs=1e-5)


@pytest.mark.parametrize("outputs", [1, 2, 3])
@pytest.mark.parametrize("rows", [32, 45])
@pytest.mark.parametrize(("first", "stop"), [(0, 8), (8, 16), (5, 10), (10, 15), (15, 16)])
def test_a_part_of_a_forest_trains_as_in_the_whole(outputs, rows, first, stop):
    torch.manual_seed(0)
    index = torch.randint(0, 11, (16, 16, 4))
    whole = ForestNetwork(
        10, outputs, index, PiecewiseLinear.between([]), hidden=(32, 16), dropout=0.1
    )
    part = take_members(whole, first, stop)
    x, y = torch.randn(rows, 10), torch.randn(rows)
    with torch.random.fork_rng():
        for network in (whole, part):
            network.train()
            torch.manual_seed(1)
            optimizer = torch.optim.AdamW(network.parameters(), 0.01, fused=True)
            for _ in range(4):
                optimizer.zero_grad()
                errors = (network.members(x) - y).square().mean((1, 2))
                (errors.sum() / network.all_members).backward()
                optimizer.step()
    assert torch.equal(part.eval().members(x), whole.eval().members(x)[first:stop])


def test_what_cannot_be_divided_is_refused():
    X, y = make_classification(60, 8, random_state=0)
    for arguments, message in (
        ({"n_workers": 0}, "n_workers must be"),
        ({"n_workers": 2.0}, "n_workers must be"),
        ({"divide": "columns"}, "divide must be"),
        ({"n_workers": 2, "preset": "single"}, "several processes train a forest"),
    ):
        with pytest.raises(ValueError, match=message):
            NRSClassifier(**TINY | arguments).fit(X, y)
