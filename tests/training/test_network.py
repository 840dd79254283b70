"""Training a network on a map-style dataset: exact, resumable, the same whoever loads the data."""

import pytest
import torch
from torch import nn

from nrs._util.seeds import seeded
from nrs.training import (
    RunSettings,
    SampleError,
    TrainSettings,
    read_model,
    save_network,
    train_network,
)
from nrs.training.network import Batches, class_balance, evaluate_network, hold_out
from nrs.training.processes import Processes
from tests.threads import in_threads

SETTINGS = TrainSettings(epochs=3, lr=0.05, optimizer="sgd", schedule="cosine", ema=0.9)
RUN = RunSettings(batch_size=8, seed=3)


class Noisy:
    """Samples whose augmentation draws from torch's global generator."""

    def __init__(self, n=35):
        generator = torch.Generator().manual_seed(0)
        self.x = torch.randn(n, 4, generator=generator)
        self.y = (self.x[:, 0] > 0).long() + (self.x[:, 1] > 0).long()

    def __len__(self):
        return len(self.x)

    def __getitem__(self, index):
        return self.x[index] + 0.1 * torch.randn(4), int(self.y[index])


def _network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 16), nn.BatchNorm1d(16), nn.Dropout(0.2), nn.Linear(16, 3))


def _fit(folder=None, **changes):
    network = _network()
    run = RunSettings(**{"batch_size": 8, "seed": 3} | changes)
    history = train_network(network, Noisy(), Noisy(20), SETTINGS, run, folder=folder, verbose=0)
    return history, network


def test_the_same_seed_gives_the_same_bits():
    (first, a), (second, b) = _fit(), _fit()
    assert first == second
    assert all(torch.equal(tensor, b.state_dict()[name]) for name, tensor in a.state_dict().items())
    assert first.columns == [
        "epoch", "train_loss", "loss", "top1", "top5", "class_mean", "lr", "seconds"
    ]  # fmt: skip


def test_networks_train_in_threads_as_they_do_alone():
    seeds, rows = (3, 4, 3), Noisy()

    def trained(network, seed):
        run = RunSettings(batch_size=8, seed=seed)
        return train_network(network, rows, rows, SETTINGS, run, verbose=0)

    expected = [trained(_network(), seed) for seed in seeds]
    networks = [_network() for _ in seeds]
    before = torch.get_rng_state()
    found = in_threads(len(seeds), lambda number: trained(networks[number], seeds[number]))
    assert torch.equal(torch.get_rng_state(), before)
    assert found == expected


def test_a_network_is_evaluated_under_any_default_device():
    network, rows = _network().eval(), Noisy()
    expected = evaluate_network(network, rows, RUN)
    with torch.device("meta"):
        assert evaluate_network(network, rows, RUN) == expected


def test_workers_change_nothing():
    assert _fit()[0] == _fit(workers=2)[0]


def test_a_killed_run_goes_on_to_the_same_bits(tmp_path):
    whole, _ = _fit()

    class StopError(Exception):
        pass

    from nrs.training import Callback

    class Kill(Callback):
        def on_epoch_begin(self, state):
            if state.epoch == 2:
                raise StopError

    network = _network()
    with pytest.raises(StopError):
        train_network(network, Noisy(), Noisy(20), SETTINGS, RUN, folder=tmp_path,
                      callbacks=[Kill()], verbose=0)  # fmt: skip
    again, _ = _fit(tmp_path)
    assert again == whole


def test_tensorboard_files_are_written(tmp_path):
    pytest.importorskip("tensorboard")
    _fit(tmp_path, tensorboard=True)
    assert list((tmp_path / "tensorboard").glob("events.*"))


def test_processes_divide_every_batch_equally():
    data = Noisy()
    alone = Batches(data, RUN)
    shares = [Batches(data, RUN, Processes(rank, 2)) for rank in range(2)]
    assert len(alone) == len(shares[0]) == 4
    epochs = [list(batches(0, torch.Generator().manual_seed(1))) for batches in (alone, *shares)]
    for whole, first, second in zip(*epochs, strict=True):
        assert len(first[1]) == len(second[1]) == 4
        assert torch.equal(whole[0][0::2], first[0])
        assert torch.equal(whole[0][1::2], second[0])


def test_selection_keeps_the_best_epoch_and_without_it_the_last():
    torch.manual_seed(0)
    data = Noisy()
    network = nn.Linear(4, 3)
    settings = TrainSettings(epochs=4, lr=3.0, optimizer="sgd", momentum=0.0)
    history = train_network(network, data, Noisy(20), settings, RUN, select=True, verbose=0)
    assert history.best_epoch == max(range(4), key=lambda epoch: (history["top1"][epoch], -epoch))
    history = train_network(network, data, Noisy(20), settings, RUN, verbose=0)
    assert history.best_epoch is None
    assert evaluate_network(network, Noisy(20), RUN)["top1"] == history["top1"][-1]


def test_metrics_of_a_known_network():
    class Fixed(nn.Module):
        def forward(self, x):
            return x

    scores = torch.eye(6)[[0, 1, 2, 0]] - torch.arange(6) / 100
    rows = [(scores[0], 0), (scores[1], 1), (scores[2], 1), (scores[3] + torch.arange(6) / 10, 5)]
    found = evaluate_network(Fixed(), rows, RunSettings(batch_size=3))
    assert found["top1"] == 50.0
    assert found["top5"] == 100.0
    assert found["class_mean"] == pytest.approx(100 * (1 + 0.5 + 0) / 3)


def test_held_out_parts_have_every_class():
    labels = [0] * 10 + [1] * 2 + [2] * 7
    kept, held = hold_out(labels, 0.2, seed=0)
    assert sorted(kept + held) == list(range(19))
    assert {labels[i] for i in held} == {labels[i] for i in kept} == {0, 1, 2}
    with pytest.raises(ValueError, match="between 0 and 1"):
        hold_out(labels, 1.0, seed=0)


def test_a_saved_network_tells_what_it_is(tmp_path):
    history, network = _fit()
    path = tmp_path / "model.safetensors"
    save_network(path, network, kind="image", model={"name": "m"}, classes=["a", "b", "c"],
                 history=history, further={"input": {"size": 4}})  # fmt: skip
    file = read_model(path, kind="image")
    assert file.header["classes"] == ["a", "b", "c"]
    assert file.header["input"] == {"size": 4}
    network.load_state_dict(file.tensors)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"batch_size": 0}, "batch_size must be at least 1"),
        ({"label_smoothing": 1.0}, "label_smoothing"),
        ({"workers": -1}, "workers"),
    ],
)
def test_settings_out_of_range(changes, message):
    with pytest.raises(ValueError, match=message):
        RunSettings(**changes)


def test_an_empty_evaluation_set_is_refused_before_training():
    network = nn.Linear(1, 2)
    before = network.weight.detach().clone()
    rows = [(torch.zeros(1), 0)] * 8
    with pytest.raises(ValueError, match="eval_set must hold at least one sample"):
        train_network(network, rows, [], TrainSettings(epochs=1), RunSettings(), verbose=0)
    assert torch.equal(network.weight, before)


class Damaged(Noisy):
    """A few samples cannot be read."""

    def __init__(self, n=35, unread=(3, 4, 20)):
        super().__init__(n)
        self.unread = unread

    def __getitem__(self, index):
        if index in self.unread:
            raise SampleError(f"sample {index} cannot be read")
        return super().__getitem__(index)


@pytest.mark.parametrize("workers", [0, 2])
def test_samples_that_cannot_be_read_are_named_and_left_out(caplog, workers):
    network = _network()
    history = train_network(
        network, Damaged(), Damaged(20), SETTINGS, RunSettings(batch_size=8, workers=workers),
        verbose=0,
    )  # fmt: skip
    assert len(history) == 3
    said = [record.message for record in caplog.records]
    # Once each, however many epochs: three to train on, two to measure on.
    assert said.count("skipped sample 20 cannot be read") == 1
    assert len(said) == 5
    found = evaluate_network(network, Damaged(20), RUN)
    rest = Noisy(20)
    kept = [index for index in range(20) if index not in (3, 4)]
    torch.manual_seed(0)
    network.eval()
    # Augmentation is by index: the others are as they are in the whole set.
    hits = 0
    for index in kept:
        with seeded(index), torch.no_grad():
            x, label = rest[index]
            hits += int(network(x[None]).argmax(1)) == label
    assert found["top1"] == pytest.approx(100 * hits / 18)


def test_a_run_in_which_nothing_can_be_read_ends(caplog):
    settings = TrainSettings(epochs=1)
    nothing = Damaged(8, unread=range(8))
    with pytest.raises(ValueError, match="none of the samples to evaluate on can be read"):
        evaluate_network(_network(), nothing, RUN)
    with pytest.raises(ValueError, match="at least one batch"):
        train_network(_network(), nothing, None, settings, RUN, verbose=0)
    group = Processes(0, 2, torch.device("cpu"))
    batches = Batches(nothing, RUN, group)
    with pytest.raises(ValueError, match="no sample of a batch can be read; the first: sample"):
        list(batches(0, torch.Generator()))


def test_weights_say_how_often_samples_are_drawn():
    rows = [(torch.tensor([float(index)]), index % 2) for index in range(40)]
    weights = class_balance([0] * 30 + [1] * 10, 2)[[0] * 30 + [1] * 10].tolist()
    batches = Batches(rows, RunSettings(batch_size=40), weights=weights)
    generator = torch.Generator().manual_seed(0)
    drawn = torch.cat([next(iter(batches(epoch, generator)))[0] for epoch in range(50)])
    assert (drawn < 30).float().mean().item() == pytest.approx(0.5, abs=0.05)


def test_batches_may_be_mixed():
    seen = []

    def mix(x, labels):
        seen.append(x.shape)
        return x.flip(0), nn.functional.one_hot(labels.flip(0), 3).float()

    history = train_network(_network(), Noisy(), None, SETTINGS, RUN, mix=mix, verbose=0)
    assert seen == [(8, 4)] * 12
    assert history["train_loss"][-1] < history["train_loss"][0]
