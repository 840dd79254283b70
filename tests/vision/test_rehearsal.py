"""What a forward pass of shapes shows, and what add_head refuses by it."""

import copy

import pytest
import torch
from torch import nn

from nrs.vision import NRSHead, add_head
from nrs.vision._torchvision import timm, torchvision
from nrs.vision.rehearsal import rehearse, skeleton


class Unused(nn.Module):
    """`fc` is there; `out` is what forward ends with."""

    def __init__(self):
        super().__init__()
        self.fc, self.out = nn.Linear(16, 3), nn.Linear(16, 3)

    def forward(self, x):
        return self.out(x)


class Between(Unused):
    """`fc` is called, and another layer reads what it returns."""

    def __init__(self):
        super().__init__()
        self.out = nn.Linear(3, 7)

    def forward(self, x):
        return self.out(self.fc(x))


class Values(Unused):
    """Branches on values, which shapes do not show."""

    def forward(self, x):
        return self.fc(x) if x.sum() > 0 else self.fc(-x)


def _state(model):
    return {name: value.clone() for name, value in model.state_dict().items()}


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (Unused(), r"Unused does not call 'fc'; .* pass classifier='out'"),
        (Between(), r"with a head of 5 classes in place of 'fc' Between fails"),
    ],
)
def test_what_forward_does_not_end_with_is_refused_before_anything_changes(model, message):
    before, names = _state(model), [name for name, _ in model.named_modules()]
    generator = torch.get_rng_state()
    with pytest.raises(ValueError, match=message):
        add_head(model, 5)
    assert [name for name, _ in model.named_modules()] == names
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert torch.equal(torch.get_rng_state(), generator)
    # The advice.
    assert add_head(model, 5, classifier="out")(torch.randn(2, 16)).shape == (2, 5)


def test_what_cannot_be_traced_gets_its_head_and_the_log_says_so(caplog):
    with caplog.at_level("INFO", logger="nrs"):
        model = add_head(Values(), 5)
    assert "the network could not be traced" in caplog.text
    assert model(torch.randn(2, 16)).shape == (2, 5)
    with caplog.at_level("INFO", logger="nrs"):
        add_head(nn.Sequential(nn.Linear(16, 3)), 5, classifier="0")
    assert "a trace shows that forward uses it" in caplog.text


def test_a_trace_changes_nothing_of_the_model():
    torch.manual_seed(0)
    model = torchvision().models.resnet18(weights=None).train()
    before, generator = _state(model), torch.get_rng_state()
    copied = skeleton(model)
    assert rehearse(copied).output == (2, 1000)
    assert model.training
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert torch.equal(torch.get_rng_state(), generator)
    assert all(p.device.type == "meta" for p in copied.parameters())


def test_the_same_weights_whether_or_not_a_trace_came_before():
    torch.manual_seed(0)
    traced = add_head(nn.Sequential(nn.Linear(16, 3)), 5, classifier="0")
    torch.manual_seed(0)
    nn.Linear(16, 3)
    alone = NRSHead(16, 5, 2, traced[0].nrs.n_per)
    for name, value in alone.state_dict().items():
        assert torch.equal(value, traced[0].state_dict()[name])


# One of each family with several classifiers, and what its message names.
TWO_HEADS = {
    "levit_128s": "distilled", "pit_ti_distilled_224": "distilled", "repvit_m1": "distillation",
    "iformer_m_distilled": "distillation", "volo_d1_224": "use_aux_head", "crossvit_9_240": None,
    "efficientformer_l1": None, "efficientformerv2_s0": None, "efficientvim_m1": None,
    "swiftformer_xs": None, "deit_tiny_distilled_patch16_224": None,
}  # fmt: skip


@pytest.mark.parametrize("name", TWO_HEADS)
def test_the_advice_for_models_of_several_classifiers(name):
    if not timm().is_model(name):
        pytest.skip(f"this timm has no {name}")
    option = TWO_HEADS[name]
    with torch.device("meta"):
        model = timm().create_model(name)
        with pytest.raises(ValueError, match="must have one classifier; got ") as caught:
            add_head(model, 5)
        x = torch.empty(2, *model.default_cfg["input_size"])
        assert "nn.Sequential(model, NRSHead(model.num_features, num_classes))" in str(caught.value)
        model.reset_classifier(0)
        assert nn.Sequential(model, NRSHead(model.num_features, 5)).eval()(x).shape == (2, 5)
        assert (f"{option}=False" in str(caught.value)) == (option is not None)
        if option:
            single = timm().create_model(name, **{option: False})
            assert add_head(single, 5).eval()(x).shape == (2, 5)


def test_a_model_without_a_classifier_and_the_advice():
    with torch.device("meta"):
        with pytest.raises(ValueError, match="num_classes=10"):
            add_head(timm().create_model("resnet18", num_classes=0), 5)
        model = add_head(timm().create_model("resnet18", num_classes=10), 5)
        assert model(torch.empty(2, 3, 32, 32)).shape == (2, 5)
        assert copy.deepcopy(model)(torch.empty(2, 3, 32, 32)).shape == (2, 5)
