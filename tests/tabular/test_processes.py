"""A forest that several processes train is the one that a single process trains."""

import json
import multiprocessing
import os
import signal
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from sklearn.datasets import make_classification, make_regression

from nrs import NRSClassifier, NRSRegressor
from nrs.core.norm import BatchNormReLU, ReducedBatchNormReLU
from nrs.tabular.forest.bins import PiecewiseLinear
from nrs.tabular.forest.divide import take_members
from nrs.tabular.forest.folds import Folds
from nrs.tabular.forest.network import ForestNetwork, forest_loss
from nrs.tabular.forest.workers import WorkerError
from nrs.tabular.targets import ClassTarget
from nrs.training import Callback, DivergenceError
from nrs.training.precision import lowered_forward
from nrs.training.processes import ALONE
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
    # The judgements that decide when to stop are the same; a sum of losses has another order.
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


def test_reduced_statistics_of_one_process_are_its_own():
    torch.manual_seed(0)
    h = (torch.randn(7, 30) * 3 + 50).requires_grad_()
    gamma, beta = torch.rand(7, requires_grad=True), torch.randn(7, requires_grad=True)
    found = []
    for function, extra in ((BatchNormReLU, ()), (ReducedBatchNormReLU, (torch.clone,))):
        output, mean, variance, *_ = function.apply(h, gamma, beta, 1e-5, *extra)
        gradients = torch.autograd.grad(output.square().sum(), (h, gamma, beta))
        found.append((output.detach(), mean, variance, *gradients))
    for plain, reduced in zip(*found, strict=True):
        torch.testing.assert_close(plain, reduced, rtol=1e-4, atol=1e-4)


def test_a_forest_trains_on_the_meta_device():
    """What a GPU would run: shapes and types, no numbers."""
    index = torch.randint(0, 11, (4, 16, 4))
    bins = PiecewiseLinear.between([(0, [-1.0, 0.0, 1.0])])
    network = ForestNetwork(9, 3, index, bins, hidden=(16, 16), dropout=0.1).to("meta")
    device = torch.device("meta")
    y, folds = (torch.zeros(32, dtype=torch.int64, device=device) for _ in range(2))
    weights = torch.ones(32, device=device)
    target = ClassTarget(np.arange(3))
    two = SimpleNamespace(divides_rows=True, size=2, total=torch.clone)
    for group in (ALONE, two):
        network.group = group
        optimizer = torch.optim.AdamW(network.parameters())
        loss = forest_loss(
            network,
            (torch.randn(32, 9, device=device), y, weights, folds),
            target,
            Folds(8).sees(4),
        )
        assert loss.device == device
        loss.backward()
        optimizer.step()
        assert {p.grad.device for p in network.parameters()} == {device}
    outputs = network.eval().fold()(torch.randn(5, 9, device=device))
    assert (outputs.shape, outputs.dtype, outputs.device) == ((5, 3), torch.float32, device)


def test_lower_precision_is_of_the_products_alone():
    index = torch.randint(0, 10, (4, 16, 4))
    network = ForestNetwork(9, 3, index, PiecewiseLinear.between([]), hidden=(16,), dropout=0.1)
    two = SimpleNamespace(divides_rows=True, size=2, total=torch.clone)
    seen = []
    network.drop.register_forward_pre_hook(lambda _, given: seen.append(given[0].dtype))
    with lowered_forward(network, torch.bfloat16, torch.device("cpu")):
        for group in (ALONE, two):
            network.group = group
            outputs = network.members(torch.randn(32, 9))
            outputs.square().mean().backward()
            assert outputs.dtype == torch.float32
    assert torch.bfloat16 in seen
    assert {tensor.dtype for tensor in network.state_dict().values()} <= {
        torch.float32,
        torch.int64,
    }
    assert network.norm.running_mean.isfinite().all()


# Workers that fit() starts itself.


def test_workers_help_a_fit(tmp_path):
    X, y = make_regression(150, 8, random_state=0)
    seen = []

    class Watch(Callback):
        def on_epoch_end(self, state):
            seen.append(state.epoch)

    def closest(truth, predicted):
        return -float(np.abs(truth - predicted).min())

    arguments = TINY | {"epochs": 4, "metric": closest, "callbacks": [Watch()]}
    helped = NRSRegressor(
        n_workers=2, divide="members", checkpoint=tmp_path / "c", **arguments
    ).fit(X, y)
    assert seen == [0, 1, 2, 3]
    assert len(list((tmp_path / "c").glob("part-*-of-2/checkpoint-*"))) == 4
    alone = NRSRegressor(**arguments).fit(X, y)
    np.testing.assert_array_equal(helped.predict(X), alone.predict(X))
    helped.save(tmp_path / "model.safetensors")
    again = NRSRegressor.load(tmp_path / "model.safetensors")
    assert again.n_workers == 1
    np.testing.assert_array_equal(again.predict(X), alone.predict(X))


@pytest.mark.usefixtures("forked_workers")
def test_workers_go_on_with_a_metric_that_only_the_first_process_knows(tmp_path):
    X, y = make_classification(200, 6, random_state=0)

    def hits(truth, predicted):
        return float((truth == predicted).mean())

    def fit():
        arguments = TINY | {"epochs": 2, "metric": hits, "checkpoint": tmp_path}
        return NRSClassifier(n_workers=2, divide="rows", **arguments).fit(X, y)

    assert fit().history_ == fit().history_


def test_errors_of_workers_reach_the_user(tmp_path, monkeypatch):
    X, y = make_classification(150, 8, random_state=0)
    model = NRSClassifier(n_workers=2, divide="rows", epochs=400, **TINY)
    monkeypatch.setattr("nrs.tabular.forest.workers._START", "raise SystemExit(3)")
    with pytest.raises(WorkerError, match="worker 1 ended with code 3"):
        model.fit(X, y)
    monkeypatch.undo()

    class Kill(Callback):
        def on_epoch_begin(self, state):
            (worker,) = _children()
            os.kill(worker, signal.SIGKILL)

    with pytest.raises(WorkerError, match="killed by signal 9"):
        model.set_params(callbacks=[Kill()]).fit(X, y)
    assert not _children()


@pytest.mark.usefixtures("forked_workers")
def test_an_error_of_the_first_process_is_its_own():
    X, y = make_classification(150, 8, random_state=0)

    class Fail(Callback):
        def on_epoch_begin(self, state):
            assert len(multiprocessing.active_children()) == 1
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        NRSClassifier(n_workers=2, callbacks=[Fail()], epochs=2, **TINY).fit(X, y)
    assert not multiprocessing.active_children()


@pytest.mark.usefixtures("forked_workers")
def test_divergence_in_a_worker_is_divergence():
    X, y = make_regression(150, 8, random_state=0)
    with pytest.raises(DivergenceError, match="Lower lr"):
        NRSRegressor(n_workers=2, lr=1e30, epochs=4, **TINY).fit(X, y)


def test_what_cannot_be_divided_is_refused():
    X, y = make_classification(60, 8, random_state=0)
    for arguments, told in (
        ({"n_workers": 0}, "n_workers must be"),
        ({"n_workers": 2.0}, "n_workers must be"),
        ({"divide": "columns"}, "divide must be"),
        ({"n_workers": 2, "preset": "single"}, "several processes train a forest"),
    ):
        with pytest.raises(ValueError, match=told):
            NRSClassifier(**TINY | arguments).fit(X, y)


def _children():
    """Worker processes of this one that are alive."""
    found = []
    for entry in os.listdir("/proc"):
        try:
            with open(f"/proc/{entry}/stat") as file:
                fields = file.read().rpartition(")")[2].split()
            with open(f"/proc/{entry}/cmdline") as file:
                command = file.read()
        except (OSError, ValueError):
            continue
        if (
            int(fields[1]) == os.getpid()
            and fields[0] != "Z"
            and "nrs.tabular.forest.workers" in command
        ):
            found.append(int(entry))
    return found
