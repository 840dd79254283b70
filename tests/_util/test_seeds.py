import multiprocessing
import threading

import pytest
import torch
from torch import nn
from torch.nn import functional

from nrs._util.seeds import lent, seeded
from tests.threads import in_threads


def test_a_seed_gives_the_same_numbers_and_leaves_the_global_generator_alone():
    before = torch.get_rng_state()
    with seeded(3):
        first = torch.rand(4)
    with seeded(3):
        assert torch.equal(torch.rand(4), first)
    assert torch.equal(torch.get_rng_state(), before)


def test_without_a_seed_the_global_generator_is_drawn_from():
    before = torch.get_rng_state()
    with seeded(None):
        torch.rand(1)
    assert not torch.equal(torch.get_rng_state(), before)


def _everything():
    """What draws when networks are made, trained, and samples augmented."""
    rows = torch.ones(5, 8)
    return [
        nn.Linear(5, 7).weight,
        nn.Conv2d(3, 4, 3).bias,
        nn.Embedding(4, 3).weight,
        nn.init.orthogonal_(torch.empty(3, 3)),
        nn.init.trunc_normal_(torch.empty(4)),
        nn.init.kaiming_normal_(torch.empty(3, 3)),
        nn.LSTM(8, 4, dropout=0.5, num_layers=2)(rows)[0],
        nn.MultiheadAttention(8, 2, dropout=0.5)(rows, rows, rows)[0],
        nn.TransformerEncoderLayer(8, 2)(rows),
        functional.dropout(rows),
        functional.dropout2d(torch.ones(2, 3, 4, 4)),
        functional.gumbel_softmax(rows),
        functional.rrelu(-rows, training=True),
        functional.fractional_max_pool2d(torch.ones(1, 1, 8, 8), 2, output_size=3),
        torch.rand(3),
        torch.randn(3),
        torch.randint(9, (3,)),
        torch.randperm(5),
        torch.randn_like(rows),
        torch.empty(4).uniform_(),
        torch.normal(0.0, 1.0, (3,)),
        torch.bernoulli(torch.full((5,), 0.5)),
        torch.multinomial(torch.ones(4), 2),
        torch.rand(2),
    ]


@pytest.mark.parametrize("outer", [None, 5])
def test_a_seed_gives_what_the_global_generator_would(outer):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        expected = _everything()
    before = torch.get_rng_state()
    with seeded(outer), seeded(3):
        found = _everything()
    assert torch.equal(torch.get_rng_state(), before)
    assert [torch.equal(a, b) for a, b in zip(found, expected, strict=True)] == [True] * len(found)


def test_a_seed_counts_in_its_own_thread_alone():
    def draw(number):
        with seeded(number % 2):
            return [_everything() for _ in range(20)]

    before = torch.get_rng_state()
    drawn = in_threads(4, draw)
    assert torch.equal(torch.get_rng_state(), before)
    for seed in (0, 1):
        for first, second in zip(drawn[seed], drawn[seed + 2], strict=True):
            assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


def test_tensors_without_data_need_no_numbers():
    with seeded(0), torch.device("meta"):
        assert nn.Linear(3, 4).weight.is_meta
        assert torch.rand(3).is_meta


def test_a_lent_generator_goes_on_and_the_global_one_returns():
    own, twin = (torch.Generator().manual_seed(7) for _ in range(2))
    before = torch.get_rng_state()
    for _ in range(3):
        with lent([own]):
            assert torch.equal(torch.rand(5), torch.rand(5, generator=twin))
    with pytest.raises(KeyError, match="inside"), lent([own]):
        raise KeyError("inside")
    assert torch.equal(torch.get_rng_state(), before)


def _draw_in_child(pipe):
    with lent([torch.Generator().manual_seed(0)]):
        pipe.send(torch.rand(1).item())


def test_a_forked_process_does_not_wait_for_a_thread_it_does_not_have():
    held, done = threading.Event(), threading.Event()

    def hold():
        with lent([torch.Generator()]):
            held.set()
            done.wait(0.5)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    reading, writing = multiprocessing.Pipe(duplex=False)
    child = multiprocessing.get_context("fork").Process(target=_draw_in_child, args=(writing,))
    child.start()
    thread.join()
    assert reading.poll(20)
    child.join()
