import contextlib
import math
import subprocess
import sys

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from nrs.core.dropout import PooledDropout
from nrs.training import Callback, DivergenceError, TrainSettings, precision, train
from nrs.training.loop import build_optimizer, copy_weights
from nrs.training.settings import learning_rate
from tests.threads import in_threads

torch.set_num_threads(1)

X = torch.randn(64, 5, generator=torch.Generator().manual_seed(1))
Y = (X[:, 0] * X[:, 1] > 0).long()


def network(dropout=0.0, seed=0):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return nn.Sequential(
            nn.Linear(5, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(dropout), nn.Linear(16, 2)
        )


def batches(epoch, generator):
    return torch.randperm(64, generator=generator).split(16)


def step(module, rows):
    return F.cross_entropy(module(X[rows]), Y[rows])


def accuracy(module):
    return {"score": (module(X).argmax(1) == Y).float().mean().item()}


def fit(module, *, seed=0, evaluate=None, step=step, batches=batches, **settings):
    keywords = {
        name: settings.pop(name)
        for name in ("callbacks", "steps_per_epoch", "monitor", "head", "layers", "global_draws")
        if name in settings
    }
    settings = TrainSettings(**{"epochs": 3, "lr": 0.01, **settings})
    generator = torch.Generator().manual_seed(seed)
    return train(
        module, batches, step, settings, generator=generator, evaluate=evaluate, **keywords
    )


def same(one, two):
    return all(torch.equal(one[name], two[name]) for name in one) and one.keys() == two.keys()


def scores(*values):
    """An evaluate that gives these scores in turn, whatever the module."""
    left = iter(values)
    return lambda module: {"score": next(left)}


class EachEpoch(Callback):
    """Keeps the weights of every epoch."""

    def __init__(self):
        self.weights = []

    def on_epoch_end(self, state):
        self.weights.append(copy_weights(state.module))


@pytest.mark.parametrize("optimizer", ["adam", "adamw", "sgd"])
def test_it_equals_a_loop_written_out(optimizer):
    module, reference = network(), network()
    history = fit(module, optimizer=optimizer, weight_decay=0.1, momentum=0.8, clip_norm=0.5)

    own = {
        "adam": lambda p: torch.optim.Adam(p, 0.01, weight_decay=0.1, fused=True),
        "adamw": lambda p: torch.optim.AdamW(p, 0.01, weight_decay=0.1, fused=True),
        "sgd": lambda p: torch.optim.SGD(p, 0.01, weight_decay=0.1, momentum=0.8, fused=True),
    }[optimizer](reference.parameters())
    generator = torch.Generator().manual_seed(0)
    torch.randint(2**62, (), generator=generator)
    losses = []
    for epoch in range(3):
        for rows in batches(epoch, generator):
            own.zero_grad()
            loss = step(reference, rows)
            loss.backward()
            nn.utils.clip_grad_norm_(reference.parameters(), 0.5)
            own.step()
            losses.append(loss.item())
    assert same(copy_weights(module), copy_weights(reference))
    assert history["train_loss"] == pytest.approx(np.reshape(losses, (3, 4)).mean(1), rel=1e-12)
    assert history["epoch"] == [0, 1, 2]
    assert history["lr"] == [0.01] * 3
    assert history.best_epoch is None
    assert not history.stopped_early


def test_it_learns_and_leaves_the_module_ready():
    module = network()
    history = fit(module, epochs=60, evaluate=accuracy)
    assert accuracy(module)["score"] == max(history["score"]) > 0.9
    assert not module.training
    assert all(p.grad is None for p in module.parameters())


def test_same_seed_same_bits_other_seed_others():
    runs = []
    for seed in (0, 0, 1):
        module = network(dropout=0.5)
        torch.rand(seed + 3)  # What the caller drew before must not matter.
        runs.append((fit(module, seed=seed), copy_weights(module)))
    assert runs[0][0] == runs[1][0]
    assert same(runs[0][1], runs[1][1])
    assert not same(runs[0][1], runs[2][1])


def test_the_seed_decides_dropout_too():
    def in_order(epoch, generator):
        return torch.arange(64).split(16)

    weights = []
    for seed in (0, 1):
        module = network(dropout=0.5)
        fit(module, seed=seed, batches=in_order)
        weights.append(copy_weights(module))
    assert not same(*weights)


def test_global_generators_are_untouched():
    before = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    fit(network(dropout=0.5), evaluate=accuracy)
    assert torch.equal(torch.get_rng_state(), before[0])
    assert (np.random.get_state()[1] == before[1]).all()  # noqa: NPY002

    def broken(module, rows):
        torch.rand(1)
        raise KeyError("broken")

    with pytest.raises(KeyError, match="broken"):
        fit(network(), step=broken)
    assert torch.equal(torch.get_rng_state(), before[0])


@pytest.mark.parametrize("draws", ["global", "pooled"])
def test_threads_train_what_one_thread_does(draws):
    def untrained():
        module = network(dropout=0.5)
        if draws == "pooled":
            module[3] = PooledDropout(0.5)
        return module

    def trained(module, seed):
        fit(module, seed=seed, global_draws=draws == "global")
        return copy_weights(module)

    seeds = (0, 1, 0, 2)
    expected = [trained(untrained(), seed) for seed in seeds]
    modules = [untrained() for _ in seeds]
    before = torch.get_rng_state()
    found = in_threads(len(seeds), lambda number: trained(modules[number], seeds[number]))
    assert torch.equal(torch.get_rng_state(), before)
    assert all(map(same, found, expected))


@pytest.mark.parametrize(
    "setting", [torch.no_grad, torch.inference_mode, lambda: torch.device("meta")]
)
def test_the_modes_of_the_caller_do_not_count(setting):
    weights = []
    for mode in (contextlib.nullcontext, setting):
        module = network(dropout=0.5)
        with mode():
            fit(module, evaluate=accuracy)
        weights.append(copy_weights(module))
    assert same(*weights)


def test_best_weights_are_restored_the_earliest_of_equals():
    module, watch = network(), EachEpoch()
    history = fit(
        module, epochs=6, evaluate=scores(0.1, 0.5, 0.3, 0.5, 0.2, 0.4), callbacks=[watch]
    )
    assert history.best_epoch == 1
    assert same(copy_weights(module), watch.weights[1])
    assert not same(watch.weights[1], watch.weights[3])
    assert len(history) == 6
    assert not history.stopped_early


def test_patience_stops():
    module, watch = network(), EachEpoch()
    history = fit(module, epochs=9, patience=2, evaluate=scores(1, 2, 2, 1.5, 9), callbacks=[watch])
    assert history["score"] == [1, 2, 2, 1.5]
    assert history.stopped_early
    assert history.best_epoch == 1
    assert same(copy_weights(module), watch.weights[1])


def test_patience_that_ends_with_the_last_epoch_is_not_early():
    history = fit(network(), epochs=3, patience=2, evaluate=scores(3, 2, 1))
    assert len(history) == 3
    assert not history.stopped_early


def losses(*values):
    """An evaluate that gives these losses of other rows in turn, the lower the better."""
    left = iter(values)

    def evaluate(module):
        loss = next(left)
        return {"score": -loss, "val_loss": loss}

    return evaluate


def test_a_cycle_follows_while_there_is_more_to_learn():
    falling = [1e-3 / (k + 1) for k in range(9)]
    settings = {"epochs": 3, "schedule": "cosine", "warmup": 0.1}
    history = fit(network(), evaluate=losses(*falling), cycles=3, **settings)
    assert len(history) == 9
    assert not history.stopped_early
    lr = np.array(history["lr"]).reshape(3, 3)
    np.testing.assert_array_equal(lr, lr[:1].repeat(3, 0))
    # The second cycle is no better than the first, so there is no third; patience does not cut it.
    values = [*falling[:3], *falling[:3], 0, 0, 0]
    history = fit(network(), evaluate=losses(*values), cycles=3, patience=2, **settings)
    assert len(history) == 6
    assert history.best_epoch == 2
    # Other rows are predicted far worse: the rest would be learned by heart.
    history = fit(network(), evaluate=losses(90, 80, 70), cycles=3, **settings)
    assert len(history) == 3
    # Without the loss of other rows nothing says so.
    assert len(fit(network(), evaluate=scores(1, 2, 3), cycles=3, **settings)) == 3


@pytest.mark.parametrize(
    ("values", "best"),
    [((math.nan, 0.1, math.nan), 1), ((math.nan, math.nan), 0), ((-math.inf, -1.0), 1)],
)
def test_nan_scores_are_the_worst(values, best):
    history = fit(network(), epochs=len(values), evaluate=scores(*values))
    assert history.best_epoch == best


def test_without_evaluate_the_last_weights_stay():
    module, watch = network(), EachEpoch()
    fit(module, callbacks=[watch])
    assert same(copy_weights(module), watch.weights[-1])


def test_evaluate_runs_in_evaluation_mode_without_gradients():
    seen = []

    def evaluate(module):
        seen.append((module.training, torch.is_grad_enabled(), torch.is_inference_mode_enabled()))
        return {"score": 0.0, "other": np.float32(2)}

    history = fit(network(), evaluate=evaluate)
    assert seen == [(False, False, False)] * 3
    assert history["other"] == [2.0] * 3


@pytest.mark.parametrize("decay", [0.5, 0.999])
def test_average_equals_a_slow_reference(decay):
    slow: dict[str, torch.Tensor] = {}

    class Reference(Callback):
        def on_train_begin(self, state):
            slow.update({n: t.double() for n, t in copy_weights(state.module).items()})

        def on_step_end(self, state):
            d = min(decay, (1 + state.step) / (10 + state.step))
            for name, tensor in copy_weights(state.module).items():
                slow[name] = d * slow[name] + (1 - d) * tensor.double()

    module, evaluated = network(), []
    fit(
        module,
        epochs=4,
        ema=decay,
        callbacks=[Reference()],
        evaluate=lambda m: evaluated.append(copy_weights(m)) or {"score": len(evaluated)},
    )
    assert same(copy_weights(module), evaluated[-1])
    for name, tensor in copy_weights(module).items():
        if tensor.is_floating_point():
            torch.testing.assert_close(tensor.double(), slow[name], rtol=1e-5, atol=1e-6)
    assert module[1].num_batches_tracked == 16  # A counter is not averaged.


@pytest.mark.parametrize("evaluate", [None, accuracy])
def test_average_does_not_disturb_training_and_is_what_is_kept(evaluate):
    plain, averaged, module = EachEpoch(), EachEpoch(), network()
    fit(network(), callbacks=[plain], evaluate=evaluate)
    fit(module, callbacks=[averaged], evaluate=evaluate, ema=0.9)
    assert all(same(*pair) for pair in zip(plain.weights, averaged.weights, strict=True))
    assert not any(same(copy_weights(module), weights) for weights in averaged.weights)


class Rates(Callback):
    def __init__(self):
        self.rates = []

    def on_step_end(self, state):
        assert state.optimizer.param_groups[0]["lr"] == state.lr
        self.rates.append(state.lr)


def rates(**settings):
    callback = Rates()
    fit(network(), callbacks=[callback], epochs=5, lr=0.1, **settings)
    return callback.rates


def test_constant_schedule():
    assert rates() == [0.1] * 20


def test_cosine_schedule():
    expected = [0.02 + 0.08 * (1 + math.cos(math.pi * t / 20)) / 2 for t in range(20)]
    assert rates(schedule="cosine", lr_final=0.02) == pytest.approx(expected, rel=1e-12)


def test_cosine_equals_torch():
    optimizer = torch.optim.SGD([nn.Parameter(torch.ones(1))], lr=0.1)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=20)
    for rate in rates(schedule="cosine"):
        assert rate == pytest.approx(optimizer.param_groups[0]["lr"], rel=1e-9)
        optimizer.step()
        schedule.step()


def test_step_schedule():
    expected = [0.1] * 8 + [0.05] * 8 + [0.025] * 4
    assert rates(schedule="step", step_every=2, step_gamma=0.5) == pytest.approx(expected)


@pytest.mark.parametrize("schedule", ["constant", "cosine"])
def test_warmup_rises_to_the_peak(schedule):
    got = rates(schedule=schedule, warmup=0.25)  # 5 of 20 steps
    assert got[:5] == pytest.approx([0.02, 0.04, 0.06, 0.08, 0.1])
    assert max(got) == pytest.approx(0.1)
    if schedule == "cosine":
        expected = [0.1 * (1 + math.cos(math.pi * t / 15)) / 2 for t in range(15)]
        assert got[5:] == pytest.approx(expected)


def test_a_schedule_without_length_needs_steps_per_epoch():
    def endless(epoch, generator):
        yield from batches(epoch, generator)

    with pytest.raises(ValueError, match="Pass steps_per_epoch"):
        rates(schedule="cosine", batches=endless)
    told = rates(schedule="cosine", batches=endless, steps_per_epoch=4)
    assert told == rates(schedule="cosine")
    assert rates(schedule="step", step_every=2, batches=endless)[-1] == pytest.approx(0.001)


def test_more_batches_than_told_stay_in_their_epoch():
    got = rates(schedule="cosine", steps_per_epoch=2)
    assert got[1] == got[2] == got[3] > got[4]
    assert got[-1] == learning_rate(TrainSettings(epochs=5, lr=0.1, schedule="cosine"), 9, 2)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_divergence_names_the_step_and_what_to_do(bad):
    calls = []

    def step_to(module, rows):
        calls.append(1)
        return step(module, rows) * (bad if len(calls) == 7 else 1.0)

    with pytest.raises(DivergenceError, match=rf"loss was {bad} in epoch 1, step 2") as caught:
        fit(network(), step=step_to)
    for advice in ("Lower lr (lr=0.01)", "clip_norm=None", "scale the inputs"):
        assert advice in str(caught.value)
    assert len(calls) == 8  # The epoch is short, so it is read at its end.


def test_divergence_does_not_wait_for_the_end_of_a_long_epoch():
    calls = []

    def broken(module, rows):
        calls.append(1)
        return module(X[:4]).mean() * math.nan

    with pytest.raises(DivergenceError, match="epoch 0, step 0"):
        fit(network(), step=broken, batches=lambda epoch, generator: range(100_000))
    assert len(calls) < 200


def test_weights_broken_by_the_last_step_are_divergence():
    module = nn.Linear(1, 1, bias=False)

    def infinite_slope(module, rows):
        return torch.sqrt(module.weight * 0).sum()

    with pytest.raises(DivergenceError, match="weights became NaN or infinite in epoch 0"):
        fit(module, step=infinite_slope, batches=lambda epoch, generator: [0])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"epochs": 0}, "epochs must be at least 1; got 0"),
        ({"lr": 0.0}, "lr must be positive and finite; got 0.0"),
        ({"lr": math.nan}, "lr must be positive"),
        ({"optimizer": "lion"}, "one of 'adam', 'adamw', 'sgd'; got 'lion'"),
        ({"schedule": "linear"}, "schedule must be .*; got 'linear'"),
        ({"precision": "fp8"}, r"precision must be .*; got 'fp8'"),
        ({"warmup": 1.0}, r"warmup must be .*; got 1.0"),
        ({"weight_decay": -1}, r"weight_decay must be .*; got -1"),
        ({"momentum": 1.0}, r"momentum must be .*; got 1.0"),
        ({"clip_norm": 0.0}, r"clip_norm must be .*; got 0.0"),
        ({"ema": 1.0}, r"ema must be .*; got 1.0"),
        ({"patience": 0}, r"patience must be .*; got 0"),
        ({"step_every": 0}, r"step_every must be .*; got 0"),
        ({"step_gamma": 0.0}, r"step_gamma must be .*; got 0.0"),
        ({"lr": 0.1, "lr_final": 0.2}, "from 0 to lr=0.1; got 0.2"),
    ],
)
def test_settings_out_of_range(settings, message):
    with pytest.raises(ValueError, match=message):
        TrainSettings(**settings)


def test_arguments_that_do_not_fit():
    with pytest.raises(ValueError, match="patience=2 needs evaluate"):
        fit(network(), patience=2)
    with pytest.raises(ValueError, match=r"'auc'.*it gave \['score'\]"):
        fit(network(), evaluate=accuracy, monitor="auc")
    with pytest.raises(ValueError, match="none of"):
        fit(network(), evaluate=lambda module: {"score": 1.0, "lr": 2.0})
    with pytest.raises(ValueError, match="none in epoch 0"):
        fit(network(), batches=lambda epoch, generator: [])
    with pytest.raises(ValueError, match=r"scalar loss; its shape is \(16,\)"):
        fit(network(), step=lambda module, rows: module(X[rows]).sum(1))
    with pytest.raises(ValueError, match="requires_grad=True; it has none"):
        fit(nn.ReLU())
    with pytest.raises(ValueError, match="requires_grad=True"):
        fit(network().requires_grad_(False))


def test_a_head_has_its_own_learning_rate():
    module, by_hand = network(), network()
    fit(
        module, epochs=2, lr=0.01, head_lr=0.2, optimizer="sgd", momentum=0.0, schedule="cosine",
        steps_per_epoch=4, head=list(module[4].parameters()),
    )  # fmt: skip
    settings = TrainSettings(epochs=2, lr=0.01, schedule="cosine")
    generator = torch.Generator().manual_seed(0)
    torch.randint(2**62, (), generator=generator)
    order = [rows for epoch in range(2) for rows in batches(epoch, generator)]
    for number, rows in enumerate(order):
        by_hand.zero_grad()
        step(by_hand, rows).backward()
        lr = learning_rate(settings, number, 4)
        with torch.no_grad():
            for name, parameter in by_hand.named_parameters():
                parameter -= (20 if name.startswith("4.") else 1) * lr * parameter.grad
    for mine, theirs in zip(module.parameters(), by_hand.parameters(), strict=True):
        torch.testing.assert_close(mine, theirs)
    with pytest.raises(ValueError, match="head_lr must be None where no head is named"):
        fit(network(), head_lr=0.2)
    with pytest.raises(ValueError, match="head_lr must be positive"):
        TrainSettings(head_lr=0.0)


def test_frozen_parameters_stay():
    module = network()
    module[0].requires_grad_(False)
    before = copy_weights(module)
    fit(module, weight_decay=0.5)
    after = copy_weights(module)
    assert torch.equal(before["0.weight"], after["0.weight"])
    assert not torch.equal(before["4.weight"], after["4.weight"])


@pytest.mark.parametrize("name", ["adam", "adamw", "sgd"])
def test_optimizers_are_fused_and_fall_back(name, monkeypatch):
    parameters = [nn.Parameter(torch.ones(2))]
    settings = TrainSettings(optimizer=name)
    assert build_optimizer(parameters, settings).defaults["fused"]
    kind = {"adam": "Adam", "adamw": "AdamW", "sgd": "SGD"}[name]
    real = getattr(torch.optim, kind)

    def without_fused(*args, fused, **keywords):
        if fused:
            raise RuntimeError("no fused kernel")
        return real(*args, **keywords)

    monkeypatch.setattr(torch.optim, kind, without_fused)
    assert not build_optimizer(parameters, settings).defaults["fused"]


def test_numpy_numbers_are_numbers():
    one, two = network(), network()
    fit(one, epochs=2, lr=0.01, clip_norm=1.0)
    fit(two, epochs=np.int64(2), lr=np.float64(0.01), clip_norm=np.float64(1.0))
    assert same(copy_weights(one), copy_weights(two))


def test_bf16_lowers_the_forward_pass_only(monkeypatch):
    monkeypatch.setattr(precision, "probe_bf16", lambda: True)
    module, inside, outside = network(), [], []
    module[4].register_forward_hook(lambda m, args, out: inside.append(out.dtype))

    def watch(module, rows):
        out = module(X[rows])
        outside.append(out.dtype)
        return F.cross_entropy(out, Y[rows])

    fit(module, precision="bf16", step=watch, epochs=1)
    assert set(inside) == {torch.bfloat16}
    assert set(outside) == {torch.float32}
    assert {p.dtype for p in module.parameters()} == {torch.float32}
    assert module(X).dtype == torch.float32
    assert "forward" not in vars(module)


def test_bf16_on_a_cpu_that_cannot_is_refused(monkeypatch):
    monkeypatch.setattr(precision, "probe_bf16", lambda: False)
    with pytest.raises(RuntimeError, match="Use precision='float32'"):
        fit(network(), precision="bf16")


def test_auto_precision_is_float32_on_a_cpu():
    one, two = network(), network()
    fit(one, precision="auto")
    fit(two)
    assert same(copy_weights(one), copy_weights(two))


def test_the_probe_survives_a_process_that_dies(monkeypatch):
    precision.probe_bf16.cache_clear()
    monkeypatch.setattr(
        precision, "_PROBE", "import os, signal; os.kill(os.getpid(), signal.SIGILL)"
    )
    assert precision.probe_bf16() is False
    monkeypatch.setattr(precision, "_PROBE", "")
    assert precision.probe_bf16() is False  # Asked once.
    precision.probe_bf16.cache_clear()
    assert precision.probe_bf16() is True
    precision.probe_bf16.cache_clear()


def test_the_probe_tells_what_happens():
    precision.probe_bf16.cache_clear()
    done = subprocess.run([sys.executable, "-c", precision._PROBE], capture_output=True)
    assert precision.probe_bf16() == (done.returncode == 0)


def test_accumulated_gradients_are_those_of_a_larger_batch():
    weights = network()[0].state_dict()
    networks = []
    for size, together in ((32, 1), (8, 4)):
        module = nn.Sequential(nn.Linear(5, 16), nn.Linear(16, 2))
        module[0].load_state_dict(weights)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(1)
            module[1].reset_parameters()
        history = fit(
            module, accumulate=together, schedule="cosine", ema=0.9, optimizer="sgd",
            batches=lambda epoch, generator, size=size: torch.arange(64).split(size),
        )  # fmt: skip
        networks.append((module.state_dict(), history))
    (one, whole), (other, parts) = networks
    assert all(torch.allclose(one[name], other[name], atol=1e-6) for name in one)
    np.testing.assert_allclose(whole["train_loss"], parts["train_loss"], rtol=1e-4)


def test_a_last_step_takes_the_batches_that_are_left():
    taken = []

    class Count(Callback):
        def on_epoch_end(self, state):
            taken.append((state.step, state.step_in_epoch))

    fit(network(), accumulate=3, callbacks=[Count()], epochs=2)
    assert taken == [(2, 4), (4, 4)]


def test_what_is_frozen_stays_as_it_was_and_its_statistics_too():
    module = network(dropout=0.5)
    before = copy_weights(module)
    head = list(module[4].parameters())
    fit(module, freeze=True, head=head)
    after = copy_weights(module)
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    assert changed == {"4.weight", "4.bias"}
    with pytest.raises(ValueError, match="freeze must be False where no head is named"):
        fit(network(), freeze=True)


def test_layers_before_the_head_learn_more_slowly():
    module = network()
    layers = [list(module[0].parameters()), list(module[1].parameters())]
    head = list(module[4].parameters())
    settings = TrainSettings(lr=0.1, layer_decay=0.5, head_lr=0.4)
    groups = build_optimizer(list(module.parameters()), settings, head, layers).param_groups
    times = {id(p): group["times"] for group in groups for p in group["params"]}
    found = [times[id(p)] for part in (*layers, head) for p in part]
    assert found == pytest.approx([0.25, 0.25, 0.5, 0.5, 4, 4])
    with pytest.raises(ValueError, match="layer_decay must be 1 where no layers are named"):
        fit(network(), layer_decay=0.5)
    rates = []

    class Rates(Callback):
        def on_step_end(self, state):
            rates.append([group["lr"] for group in state.optimizer.param_groups])

    fit(module, lr=0.1, layer_decay=0.5, head_lr=0.4, head=head, layers=layers,
        callbacks=[Rates()], schedule="cosine", epochs=2, steps_per_epoch=4)  # fmt: skip
    assert rates[0] == pytest.approx([0.025, 0.05, 0.4])
    assert rates[-1][2] / rates[-1][0] == pytest.approx(16)


@pytest.mark.parametrize("clip", [None, 0.5])
def test_half_precision_learns_with_scaled_losses(clip):
    module, plain = network(), network()
    history = fit(module, precision="fp16", epochs=10, clip_norm=clip)
    expected = fit(plain, epochs=10, clip_norm=clip)
    assert history["train_loss"][-1] == pytest.approx(expected["train_loss"][-1], rel=0.1)
    assert all(p.dtype == torch.float32 for p in module.parameters())
