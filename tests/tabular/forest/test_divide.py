"""A forest that several processes train is the one that a single process trains."""

import itertools
import json
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import make_classification

from nrs import NRSClassifier
from nrs.tabular.forest.bins import PiecewiseLinear
from nrs.tabular.forest.divide import bounds, check_division, divided, division, take_members
from nrs.tabular.forest.network import ForestNetwork
from nrs.tabular.recipe import resolve
from nrs.tabular.run import Run
from nrs.training.processes import ALONE, Processes
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
        ({"n_workers": 5_000}, "n_workers=5,000 is far above"),
        ({"n_jobs": 100_000}, "n_jobs=100,000 is far above"),
        ({"divide": "columns"}, "divide must be"),
        ({"n_workers": 2, "preset": "single"}, "several processes train a forest"),
    ):
        with pytest.raises(ValueError, match=message):
            NRSClassifier(**TINY | arguments).fit(X, y)


@given(st.integers(1, 60), st.integers(1, 8))
def test_processes_have_all_members_between_them(n_members, size):
    parts = [bounds(n_members, Processes(rank, size)) for rank in range(size)]
    assert (parts[0][0], parts[-1][1]) == (0, n_members)
    assert all(stop == start for (_, stop), (start, _) in itertools.pairwise(parts))
    counts = [stop - start for start, stop in parts]
    assert max(counts) - min(counts) <= 1


def test_members_are_divided_where_each_process_can_have_one():
    recipe = resolve("fast", {}, 100, 4)
    assert recipe.members == 8
    assert [division(recipe, "auto", size) for size in (2, 8, 9)] == ["parts", "parts", "rows"]
    assert division(recipe, "rows", 2) == "rows"
    assert division(recipe, "members", 2) == "parts"
    clipped = replace(recipe, clip_norm=1.0)
    assert division(clipped, "auto", 2) == "rows"
    run = Run(seed=0, device=torch.device("cpu"), begin=0.0, n_workers=2, divide="members")
    with pytest.raises(ValueError, match=r"cannot clip the norm .*Use divide='rows'"):
        check_division(clipped, run)


def test_more_processes_than_members_cannot_divide_them():
    network = ForestNetwork(3, 1, torch.zeros(2, 4, 2).long(), PiecewiseLinear.between([]))
    group = Processes(0, 3, divided="parts")
    message = "2 members for 3 processes"
    with pytest.raises(ValueError, match=message), divided(network, group):
        pass


def test_a_forest_whose_rows_are_divided_is_whole_again_after_an_error():
    network = ForestNetwork(3, 1, torch.zeros(2, 4, 2).long(), PiecewiseLinear.between([]))
    group = Processes(0, 2, divided="rows")

    def fail():
        with divided(network, group) as trained:
            assert trained is network
            assert network.group is group
            raise KeyError("inside")

    with pytest.raises(KeyError, match="inside"):
        fail()
    assert network.group is ALONE
