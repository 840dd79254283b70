"""A head for any CNN: forward, backward, state, and the original back bit for bit."""

import copy

import pytest
import torch
from torch import nn

from nrs.core import NRS
from nrs.core.layer import largest_divisor
from nrs.vision import NRSHead, add_head, remove_head
from nrs.vision._torchvision import timm, torchvision
from nrs.vision.head import MOST_N_PER

# The smallest of each family, with the smallest input that its strides allow.
TORCHVISION = {
    "resnet18": 32, "vgg11_bn": 32, "mobilenet_v2": 32, "mobilenet_v3_small": 32,
    "inception_v3": 80, "densenet121": 32, "efficientnet_b0": 32, "convnext_tiny": 32,
    "squeezenet1_1": 32, "shufflenet_v2_x0_5": 32, "mnasnet0_5": 32, "regnet_y_400mf": 32,
    "alexnet": 64, "googlenet": 32,
}  # fmt: skip
TIMM = {
    "resnet18": 32, "resnetv2_18": 32, "vgg11": 32, "mobilenetv2_050": 32,
    "mobilenetv3_small_050": 32, "efficientnet_lite0": 32, "densenet121": 32, "convnext_atto": 32,
    "inception_v3": 80, "dpn48b": 32, "hrnet_w18_small": 32, "ghostnet_050": 32,
    "rexnet_100": 32, "regnetx_002": 32, "dla46_c": 32, "ese_vovnet19b_slim": 32, "repvgg_a0": 32,
    "seresnet18": 32, "legacy_seresnet18": 32, "mixnet_s": 32, "nf_regnet_b0": 32,
}  # fmt: skip
MODELS = [("torchvision", name) for name in TORCHVISION] + [("timm", name) for name in TIMM]


def _model(source, name):
    torch.manual_seed(0)
    if source == "timm":
        return timm().create_model(name, pretrained=False, num_classes=11), TIMM[name]
    further = {"init_weights": False} if name in ("googlenet", "inception_v3") else {}
    model = torchvision().models.get_model(name, weights=None, num_classes=11, **further)
    return model, TORCHVISION[name]


@pytest.mark.parametrize(("source", "name"), MODELS, ids=lambda value: value)
def test_any_architecture(source, name):
    model, size = _model(source, name)
    model.eval()
    x = torch.randn(2, 3, size, size)
    with torch.no_grad():
        before = model(x)
    names = set(model.state_dict())

    assert add_head(model, 5) is model
    head = next(module for module in model.modules() if isinstance(module, NRSHead))
    assert head.nrs.out_features % head.nrs.n_per == 0
    scores = model(x)
    assert scores.shape == (2, 5)
    scores.sum().backward()
    gradients = [p.grad for p in head.parameters()]
    assert all(g is not None and g.isfinite().all() for g in gradients)
    first = next(model.parameters())
    assert first.grad is not None

    # Weights come back through a state dict, the permutations with them.
    state = copy.deepcopy(model.state_dict())
    with torch.no_grad():
        for parameter in head.parameters():
            parameter.add_(1.0)
    head.nrs.index.copy_(head.nrs.index.flip(0))
    model.load_state_dict(state)
    with torch.no_grad():
        assert torch.equal(model(x), scores)

    if source == "timm":
        features = model.forward_features(x)
        pooled = model.forward_head(features, pre_logits=True)
        assert pooled.shape[1] == head.in_features
        assert torch.allclose(model.forward_head(features), scores, atol=1e-5)
        assert isinstance(model.get_classifier(), NRSHead)
        assert model.num_classes == 5

    remove_head(model)
    assert set(model.state_dict()) == names
    with torch.no_grad():
        assert torch.equal(model(x), before)


@pytest.mark.parametrize("name", ["resnet18", "vgg11", "convnext_atto", "mobilenetv3_small_050"])
def test_timm_resets_its_classifier_as_ever(name):
    model, size = _model("timm", name)
    add_head(model.eval(), 5)
    model.reset_classifier(7)
    assert model(torch.randn(2, 3, size, size)).shape == (2, 7)
    model.reset_classifier(0)
    assert model(torch.randn(2, 3, size, size)).shape[0] == 2


@pytest.mark.parametrize(
    ("source", "name", "n_mul", "n_per"),
    [
        ("torchvision", "resnet18", 4, 32),
        ("torchvision", "resnet50", 2, 64),
        ("torchvision", "vgg16", 6, 64),
        ("torchvision", "mobilenet_v2", 1, 32),
        ("timm", "resnet18", 4, 32),
        ("timm", "resnet50", 2, 64),
        ("timm", "mobilenetv2_100", 1, 32),
        # Others: 2, and the largest divisor of C not above 64.
        ("torchvision", "resnet34", 2, 64),
        ("torchvision", "wide_resnet50_2", 2, 64),
        ("timm", "mixnet_s", 2, 64),
        ("timm", "seresnet50", 2, 64),
    ],
)
def test_the_papers_values_are_the_default(source, name, n_mul, n_per):
    with torch.device("meta"):
        model = _any(source, name)
        add_head(model, 200)
    head = next(module for module in model.modules() if isinstance(module, NRSHead))
    assert (head.nrs.n_mul, head.nrs.n_per) == (n_mul, n_per)


def _any(source, name):
    if source == "timm":
        return timm().create_model(name)
    return torchvision().models.get_model(name, weights=None)


def test_own_values_and_odd_widths():
    model = nn.Sequential(nn.Flatten(), nn.Linear(81, 3))
    head = add_head(model, 4, classifier="1")[1]
    assert (head.nrs.n_mul, head.nrs.n_per) == (2, largest_divisor(162, MOST_N_PER)) == (2, 54)
    head = add_head(remove_head(model), 4, 3, 9, n_h=2, classifier="1")[1]
    assert (head.nrs.n_mul, head.nrs.n_per, head.nrs.n_h) == (3, 9, 2)


def test_device_dtype_and_mode_stay():
    model = _model("torchvision", "resnet18")[0].double().train()
    add_head(model, 5)
    assert model.fc.fc.weight.dtype == torch.float64
    assert model.fc.training
    assert model(torch.randn(2, 3, 32, 32, dtype=torch.float64)).dtype == torch.float64
    remove_head(model.float())
    assert model.fc.weight.dtype == torch.float32


def test_any_input_size():
    for source, name in (("torchvision", "vgg11_bn"), ("timm", "vgg11"), ("timm", "resnet18")):
        with torch.device("meta"):
            model, _ = _model(source, name)
            add_head(model.eval(), 5)
            for size in (32, 65):
                assert model(torch.randn(1, 3, size, size)).shape == (1, 5)


def test_vgg_loses_its_fully_connected_layers():
    with torch.device("meta"):
        model, _ = _model("torchvision", "vgg11_bn")
        add_head(model, 5, n_mul=6, n_per=64)
    names = [name for name, layer in model.named_modules() if isinstance(layer, nn.Linear)]
    assert names == ["classifier.fc"]


def test_auxiliary_classifiers_follow():
    model, size = _model("torchvision", "googlenet")
    add_head(model.train(), 5)
    outputs = model(torch.randn(2, 3, size, size))
    assert [tuple(scores.shape) for scores in outputs] == [(2, 5)] * 3
    remove_head(model)
    assert model.aux1.fc2.out_features == 11
    with torch.device("meta"):
        inception = add_head(_model("torchvision", "inception_v3")[0], 5)
    assert inception.AuxLogits.fc.out_features == 5


def test_auxiliary_classifiers_of_timm_and_their_seed():
    model = timm().create_model("inception_v3", aux_logits=True)
    add_head(model, 5, seed=0)
    assert model.AuxLogits.fc.out_features == 5
    again = add_head(timm().create_model("inception_v3", aux_logits=True), 5, seed=0)
    assert torch.equal(model.AuxLogits.fc.weight, again.AuxLogits.fc.weight)


def test_a_head_again_after_timm_has_reset_it():
    with torch.device("meta"):
        model = timm().create_model("vgg11", num_classes=11)
        add_head(model, 5).reset_classifier(7)
        assert add_head(model, 3)(torch.empty(2, 3, 32, 32)).shape == (2, 3)


def test_a_distillation_head_is_refused_but_its_absence_is_not():
    with torch.device("meta"):
        with pytest.raises(ValueError, match="distillation=False"):
            add_head(timm().create_model("repvit_m0_9"), 5)
        model = timm().create_model("repvit_m0_9", distillation=False)
        assert add_head(model, 5)(torch.empty(2, 3, 64, 64)).shape == (2, 5)
        with pytest.raises(ValueError, match="it may have none"):
            add_head(timm().create_model("resnet18", features_only=True), 5)


def test_a_copy_can_undo_too():
    model = _model("torchvision", "resnet18")[0].eval()
    x = torch.randn(1, 3, 32, 32)
    before = model(x)
    copied = copy.deepcopy(add_head(model, 5))
    assert torch.equal(remove_head(copied)(x), before)
    assert model(x).shape == (1, 5)


def test_the_same_seed_gives_the_same_head():
    first, second = (add_head(_tiny(), 5, classifier="1", seed=3)[1].state_dict() for _ in range(2))
    assert all(torch.equal(value, second[name]) for name, value in first.items())


def _tiny():
    return nn.Sequential(nn.Flatten(), nn.Linear(16, 3))


def test_a_convolution_as_classifier():
    head = NRSHead(16, 5, 2, 8).eval()
    x = torch.randn(2, 16, 3, 3)
    out = head(x)
    assert out.shape == (2, 5, 3, 3)
    assert torch.allclose(out[:, :, 1, 2], head(x[:, :, 1, 2]), atol=1e-6)


def test_memory_with_channels_last():
    model = _model("torchvision", "resnet18")[0]
    add_head(model, 5).to(memory_format=torch.channels_last)
    x = torch.randn(2, 3, 32, 32).contiguous(memory_format=torch.channels_last)
    model(x).sum().backward()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: add_head(_tiny(), 0, classifier="1"), "num_classes must be at least 1"),
        (lambda: add_head(_tiny(), 5), "name it, for instance classifier='1'"),
        (lambda: add_head(_tiny(), 5, classifier="fc"), "however: classifier='fc'; the last ones"),
        (lambda: add_head(_tiny(), 5, n_per=7, classifier="1"), "n_per must divide"),
        (
            lambda: add_head(add_head(_tiny(), 5, classifier="1"), 5, classifier="1.fc"),
            "it has one",
        ),
        (lambda: remove_head(_tiny()), "must have a head of add_head"),
        (lambda: add_head(timm().create_model("resnet18", num_classes=0), 5), "num_classes=0"),
    ],
)
def test_mistakes(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_the_head_folds():
    from nrs.core import FoldedNRS, fold

    model = add_head(_model("torchvision", "resnet18")[0], 5).eval()
    x = torch.randn(2, 3, 32, 32)
    folded = fold(model)
    assert any(isinstance(m, FoldedNRS) for m in folded.modules())
    assert not any(isinstance(m, NRS) for m in folded.modules())
    assert torch.allclose(folded(x), model(x), atol=1e-4)
