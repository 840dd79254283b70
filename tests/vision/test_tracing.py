"""Networks with our head and block under the tools of others: traces, hooks, quantization."""

import copy

import pytest
import torch
from torch import nn
from torch.nn.utils import prune

from nrs.core import fold
from nrs.vision import NRSExcite, NRSHead, add_head, remove_head, replace_se
from nrs.vision._torchvision import part, timm, torchvision

FAKE_QUANTIZED = {"x86", "fbgemm", "qnnpack", "onednn"}


def _network():
    """Our block in every residual branch, our head at the end."""
    torch.manual_seed(0)
    model = replace_se(timm().create_model("seresnet18", num_classes=10))
    return add_head(model, 5).eval()


def _pictures():
    return torch.randn(2, 3, 64, 64, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("source", ["torchvision", "timm"])
def test_features_are_extracted_by_name(source):
    model, x = _network(), _pictures()
    if source == "torchvision":
        module = part("torchvision.models.feature_extraction")
    else:
        module = part("timm.models")
    extract = module.create_feature_extractor(model, ["layer1.0.se", "layer4", "fc.nrs", "fc.fc"])
    found = extract(x)
    found = list(found.values()) if isinstance(found, dict) else found
    assert [tuple(f.shape) for f in found] == [
        (2, 64, 16, 16), (2, 512, 2, 2), (2, 1024), (2, 5),
    ]  # fmt: skip
    assert torch.equal(found[-1], model(x))


def test_a_head_of_a_convolution_is_traced_too():
    network = nn.Sequential(NRSHead(16, 5, 2, 8)).eval()
    traced = torch.fx.symbolic_trace(network)
    for x in (torch.randn(3, 16), torch.randn(3, 16, 4, 4)):
        assert torch.equal(traced(x), network(x))


def test_feature_networks_of_timm_with_our_block():
    model = timm().create_model(
        "resnet18", features_only=True, block_args={"attn_layer": NRSExcite}
    )
    assert [f.shape[1] for f in model(_pictures())] == [64, 64, 128, 256, 512]
    hooked = timm().create_model("efficientnet_lite0", features_only=True, feature_cls="hook")
    assert len(hooked(_pictures())) == 5


@pytest.mark.parametrize("training", [True, False])
def test_hooks_of_the_layer_in_a_block_fire_and_change_nothing(training):
    block = NRSExcite(96, seed=0).train(training)
    x = torch.randn(2, 96, 7, 7)
    with torch.no_grad():
        expected = block(x)
        seen = []
        block.nrs.register_forward_hook(lambda module, inputs, output: seen.append(output))
        assert torch.allclose(block(x), expected, atol=1e-6)
    assert seen[0].shape == (2, 96)


def test_pruning_of_the_layer_reaches_the_block():
    # Torch's pruning sets the weight in a hook of the layer.
    block, x = NRSExcite(96, seed=0), torch.randn(2, 96, 7, 7)
    prune.l1_unstructured(block.nrs, "weight", amount=0.5)
    with torch.no_grad():
        block.nrs.weight_orig.zero_()
        silent = block(x)
        assert torch.allclose(silent, x * block.nrs.bias.sigmoid()[:, None, None], atol=1e-6)


def test_a_block_under_transforms_of_torch_func():
    block, x = NRSExcite(12, seed=0).double(), torch.randn(3, 12, 4, 4, dtype=torch.float64)
    with torch.no_grad():
        by_picture = torch.func.vmap(lambda picture: block(picture[None])[0])(x)
        assert torch.allclose(by_picture, block(x))
    x.requires_grad_()
    assert torch.autograd.gradcheck(block, (x,), fast_mode=True)
    assert torch.autograd.gradgradcheck(block, (x,), fast_mode=True)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("how", ["fx", "dynamic"])
def test_quantization_of_torch_ao(how):
    """Linear and convolutions become integers; the NRS layer stays what it is."""
    from torch.ao import quantization
    from torch.ao.quantization.quantize_fx import convert_fx, prepare_fx

    model, x = add_head(torchvision().models.resnet18(weights=None), 5).eval(), _pictures()
    engine = torch.backends.quantized.engine
    if engine not in FAKE_QUANTIZED:
        pytest.skip(f"no quantized kernels: {engine}")
    if how == "fx":
        mapping = quantization.get_default_qconfig_mapping(engine)
        prepared = prepare_fx(copy.deepcopy(model), mapping, (x,))
        prepared(x)
        quantized = convert_fx(prepared)
    else:
        quantized = quantization.quantize_dynamic(copy.deepcopy(model), {nn.Linear})
    assert "quantized" in type(quantized.fc.fc).__module__
    assert quantized.fc.nrs.weight.dtype == torch.float32
    with torch.no_grad():
        error = (quantized(x) - model(x)).abs().max() / model(x).abs().max()
    assert error < 0.1


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "change",
    [fold, lambda model: torch.ao.quantization.quantize_dynamic(model, {nn.Linear})],
    ids=["folded", "quantized"],
)
def test_a_head_that_was_changed_is_removed_all_the_same(change):
    torch.manual_seed(0)
    model, x = torchvision().models.resnet18(weights=None).eval(), _pictures()
    expected = model(x)
    restored = remove_head(change(add_head(model, 5)))
    assert torch.allclose(restored(x), expected, atol=1e-4)
