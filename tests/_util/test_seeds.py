import torch

from nrs._util.seeds import seeded


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
