"""NRS in place of squeeze-and-excitation: numbers, sizes, and every family that has such blocks."""

import pytest
import torch
from torch import nn

from nrs.core import count_parameters
from nrs.vision import NRSExcite, SEBlock, replace_se
from nrs.vision._torchvision import part, timm, torchvision
from nrs.vision.excite import _se_blocks

# A small model of every family of timm with such blocks, and the size of its input.
FAMILIES = {
    "byoanet": ("seresnext26ts", 32), "byobnet": ("mobileone_s4", 32),
    "cspnet": ("cs3sedarknet_l", 32), "efficientnet": ("efficientnet_b0", 32),
    "efficientvim": ("efficientvim_m1", 224), "efficientvit_msra": ("efficientvit_m0", 224),
    "fastvit": ("fastvit_t8", 64), "gcvit": ("gcvit_xxtiny", 224),
    "ghostnet": ("ghostnet_050", 32), "hardcorenas": ("hardcorenas_a", 32),
    "hgnet": ("hgnet_tiny", 32),
    "lcnetv2": ("lcnetv2_small", 32), "maxxvit": ("coatnet_pico_rw_224", 224),
    "mobilenetv3": ("mobilenetv3_small_050", 32), "nfnet": ("nf_regnet_b0", 32),
    "rdnet": ("rdnet_tiny", 32), "regnet": ("regnety_002", 32),
    "repghost": ("repghostnet_050", 32), "repvit": ("repvit_m0_9", 64),
    "resnet": ("seresnet18", 32), "rexnet": ("rexnet_100", 32),
    "senet": ("legacy_seresnet18", 32), "shvit": ("shvit_s1", 64), "tresnet": ("tresnet_m", 32),
    "vovnet": ("ese_vovnet19b_slim", 32),
}  # fmt: skip


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_of_timm(family):
    name, size = FAMILIES[family]
    # The larger ones are checked by shapes alone.
    device = "meta" if size > 64 else "cpu"
    with torch.device(device):
        model = timm().create_model(name, pretrained=False, num_classes=3)
        blocks = _blocks(model)
        assert blocks
        replace_se(model)
        assert len([m for m in model.modules() if isinstance(m, NRSExcite)]) == len(blocks)
        assert not _blocks(model)
        out = model.eval()(torch.randn(1, 3, size, size))
    assert out.shape == (1, 3)
    if device == "cpu":
        out.sum().backward()
        block = next(m for m in model.modules() if isinstance(m, NRSExcite))
        assert block.nrs.weight.grad.isfinite().all()


@pytest.mark.parametrize("name", ["mobilenet_v3_small", "efficientnet_b0", "regnet_y_400mf"])
def test_families_of_torchvision(name):
    model = torchvision().models.get_model(name, weights=None, num_classes=3)
    weights = {k: v.clone() for k, v in model.state_dict().items()}
    replace_se(model, seed=0)
    assert not _blocks(model)
    # What is no such block keeps its weights.
    for key, value in model.state_dict().items():
        if ".nrs." not in key and key in weights:
            assert torch.equal(value, weights[key])
    assert model.eval()(torch.randn(2, 3, 32, 32)).shape == (2, 3)


def _blocks(model):
    return [m for m in model.modules() if isinstance(m, tuple(_se_blocks()))]


@pytest.mark.parametrize("channels", [64, 256])
@pytest.mark.parametrize("channels_last", [False, True])
def test_autocast_leaves_the_map_in_low_precision(channels, channels_last):
    block = NRSExcite(channels, channels_last=channels_last, seed=0)
    shape = (32, 2, 2, channels) if channels_last else (32, channels, 2, 2)
    x = torch.randn(shape, dtype=torch.bfloat16)
    with torch.autocast("cpu", torch.bfloat16):
        assert block(x).dtype == torch.bfloat16
    with pytest.raises(TypeError, match="one dtype"):
        block(x)


def test_an_attention_layer_of_timm():
    block = part("timm.layers").create_attn(NRSExcite, 64, rd_ratio=1 / 16)
    assert isinstance(block, NRSExcite)
    model = timm().create_model("resnet18", block_args={"attn_layer": NRSExcite}, num_classes=3)
    assert len([m for m in model.modules() if isinstance(m, NRSExcite)]) == 8
    model(torch.randn(2, 3, 32, 32)).sum().backward()
    with pytest.raises(TypeError, match="no argument 'n_mull'"):
        NRSExcite(64, n_mull=2)


def test_it_is_the_grouped_convolution_of_the_paper():
    block = NRSExcite(24, seed=0).double()
    x = torch.randn(3, 24, 5, 4, dtype=torch.float64)
    pooled = x.mean((2, 3))
    cells = pooled[:, block.nrs.index].view(3, 24, 3, 3)
    gate = nn.functional.conv2d(cells, block.nrs.weight, block.nrs.bias, groups=24).sigmoid()
    assert torch.allclose(block(x), x * gate, atol=1e-12)


def test_channels_last_is_the_same_block():
    first, last = NRSExcite(24, seed=0), NRSExcite(24, seed=0, channels_last=True)
    x = torch.randn(2, 24, 5, 4)
    there = last(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
    assert torch.allclose(first(x), there, atol=1e-6)


def test_squeeze_and_excitation_by_hand():
    block = SEBlock(32).double()
    x = torch.randn(2, 32, 3, 3, dtype=torch.float64)
    hidden = (x.mean((2, 3)) @ block.squeeze.weight.t()).clamp(min=0)
    gate = 1 / (1 + (-(hidden @ block.excite.weight.t())).exp())
    assert torch.allclose(block(x), x * gate[:, :, None, None])
    assert count_parameters(block) == 2 * 32 * 2


@pytest.mark.parametrize("channels", range(16, 16 * 40, 16))
def test_fewer_parameters_exactly_from_where_the_paper_says(channels):
    # The paper: 9C ≤ 2C²/r, so C ≥ 9r/2 = 72. With the bias counted 10C ≤ 2C²/r, so C ≥ 5r = 80,
    # where both are equal.
    nrs, se = count_parameters(NRSExcite(channels)), count_parameters(SEBlock(channels))
    assert (nrs, se) == (10 * channels, 2 * channels**2 // 16)
    assert (nrs <= se) == (channels >= 5 * 16)
    assert (nrs < se) == (channels > 5 * 16)
    without_bias = 9 * channels
    assert (without_bias <= se) == (channels >= 4.5 * 16)


def test_a_model_without_such_blocks_is_refused():
    with pytest.raises(ValueError, match="ResNet has none"):
        replace_se(torchvision().models.resnet18())


@pytest.mark.parametrize("side", [1, 7, 9])
@pytest.mark.parametrize("memory", [torch.contiguous_format, torch.channels_last])
def test_gates_are_those_of_the_mean_however_it_is_pooled(side, memory):
    block = NRSExcite(96, seed=0)
    x = torch.randn(3, 96, side, side).to(memory_format=memory).requires_grad_()
    expected = x * block.nrs(x.mean((2, 3)))[:, :, None, None]
    torch.testing.assert_close(block(x), expected)
    (mine,) = torch.autograd.grad(block(x).square().sum(), x)
    (theirs,) = torch.autograd.grad(expected.square().sum(), x)
    torch.testing.assert_close(mine, theirs)


@pytest.mark.parametrize("channels", [16, 64, 200])
@pytest.mark.parametrize(("batch", "side"), [(1, 7), (32, 7), (32, 9), (0, 7)])
def test_inference_gives_the_numbers_of_training(channels, batch, side):
    block = NRSExcite(channels, seed=0)
    x = torch.randn(batch, channels, side, side)
    trained = block(x).detach()
    with torch.no_grad():
        torch.testing.assert_close(block(x), trained)
    with torch.inference_mode():
        torch.testing.assert_close(block(x), trained)
        # Weights that were loaded since are those that count.
        block.load_state_dict(NRSExcite(channels, seed=1).state_dict())
        inferred = block(x)
    # What was kept in inference mode serves a gradient too.
    torch.testing.assert_close(inferred, block(x.clone().requires_grad_()).detach())


def test_inference_under_a_tracer_keeps_no_constant_of_its_own():
    from torch._subclasses import FakeTensorMode

    from nrs.vision import excite

    excite._kept.cache_clear()
    with FakeTensorMode(), torch.no_grad():
        assert NRSExcite(64, seed=0)(torch.randn(32, 64, 7, 7)).shape == (32, 64, 7, 7)
    assert excite._kept.cache_info().currsize == 0


@pytest.mark.parametrize(("excite", "extra"), [("se", 87_040), ("nrs", 19_200)])
def test_a_resnet_gets_blocks_at_the_end_of_its_branches(excite, extra):
    from nrs.vision.models import ModelSettings, build_model

    plain, blocks = (
        build_model(ModelSettings("torchvision/resnet18", excite=kind), 10, seed=0)
        for kind in ("none", excite)
    )
    counts = [sum(p.numel() for p in network.parameters()) for network in (plain, blocks)]
    # Two branches each of 64, 128, 256 and 512 channels: C²/8 of SE without biases, 10·C of NRS.
    assert counts[1] - counts[0] == extra
    assert blocks(torch.randn(2, 3, 64, 64)).shape == (2, 10)
