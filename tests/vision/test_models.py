"""Networks by name, their trunks, and the door to torchvision."""

import subprocess
import sys

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from nrs.vision import BilinearPool, ModelSettings, PooledClassifier, build_model, cifar_network
from nrs.vision import trunk as trunk_of
from nrs.vision._torchvision import timm, torchvision
from nrs.vision.models import head_names, head_parameters, layer_parameters
from tests.forked import Forked


@pytest.mark.parametrize(
    ("model", "channels"),
    [
        (lambda: torchvision().models.resnet18(), 512),
        (lambda: torchvision().models.mobilenet_v2(), 1280),
        (lambda: torchvision().models.densenet121(), 1024),
        (lambda: timm().create_model("efficientnet_lite0"), 1280),
        (lambda: timm().create_model("seresnet18"), 512),
        (lambda: cifar_network("resnet20"), 64),
    ],
)
def test_trunks_give_the_last_feature_map(model, channels):
    with torch.device("meta"):
        body = trunk_of(model()).eval()
        out = body(torch.empty(1, 3, 64, 64))
        pooled = PooledClassifier(body, BilinearPool(channels, 4), 3)
    assert out.shape[:2] == (1, channels)
    assert out.dim() == 4
    assert not any(isinstance(m, nn.Linear) for m in body.modules())
    assert pooled(torch.empty(1, 3, 64, 64, device="meta")).shape == (1, 3)


def test_the_trunk_of_vgg_ends_before_its_last_pooling():
    with torch.device("meta"):
        body = trunk_of(torchvision().models.vgg16())
        assert body(torch.empty(1, 3, 64, 64)).shape == (1, 512, 4, 4)
    with pytest.raises(ValueError, match="Flatten is not known"):
        trunk_of(nn.Flatten())


def test_the_trunk_of_timms_vgg_ends_there_too():
    with torch.device("meta"):
        body = trunk_of(timm().create_model("vgg11"))
        assert body(torch.empty(1, 3, 64, 64)).shape == (1, 512, 4, 4)


@pytest.mark.parametrize("head", ["linear", "nrs"])
@pytest.mark.parametrize("name", ["vgg11", "alexnet", "squeezenet1_1", "googlenet", "resnet18"])
def test_the_same_layers_with_weights_and_without(name, head, monkeypatch):
    monkeypatch.setattr("nrs.vision.models.read_weights", lambda path: ({}, False))
    plain = ModelSettings(f"torchvision/{name}", head=head)
    loaded = ModelSettings(f"torchvision/{name}", head=head, weights="theirs.safetensors")
    with torch.device("meta"):
        shapes = [
            {key: value.shape for key, value in model.state_dict().items()}
            for model in (
                build_model(loaded, 3),
                build_model(loaded, 3, fetch=False),
                build_model(plain, 3),
            )
        ]
    assert shapes[0] == shapes[1] == shapes[2]


def test_inception_keeps_the_units_of_its_weights():
    with torch.device("meta"):
        for pretrained in (False, True):
            settings = ModelSettings("torchvision/inception_v3", pretrained=pretrained)
            assert build_model(settings, 3, fetch=False).transform_input is pretrained


def test_second_order_heads_of_networks_for_large_pictures():
    settings = ModelSettings("timm/inception_v3", head="isqrt", reduce=8)
    assert build_model(settings, 3).fc.out_features == 3


def test_weights_from_a_file(tmp_path):
    theirs = timm().create_model("mobilenetv3_small_050")
    path = tmp_path / "weights.safetensors"
    save_file(theirs.state_dict(), path)
    settings = ModelSettings("timm/mobilenetv3_small_050", head="nrs", weights=str(path))
    model = build_model(settings, 5, seed=0)
    assert torch.equal(model.conv_stem.weight, theirs.conv_stem.weight)
    assert model.eval()(torch.randn(1, 3, 32, 32)).shape == (1, 5)
    again = build_model(settings, 5, seed=0)
    assert all(torch.equal(v, again.state_dict()[k]) for k, v in model.state_dict().items())
    save_file({"a": torch.zeros(1)}, path)
    with pytest.raises(ValueError, match="must hold the weights of MobileNetV3: it lacks"):
        build_model(settings, 5)


def test_blocks_by_name():
    settings = ModelSettings("timm/mobilenetv3_small_050", excite="nrs")
    names = {type(m).__name__ for m in build_model(settings, 3).modules()}
    assert "NRSExcite" in names
    assert "SqueezeExcite" not in names


@pytest.mark.parametrize("name", ["resnet20", "resnet50", "inception_v3"])
@pytest.mark.parametrize("excite", ["none", "se", "nrs"])
def test_networks_for_small_pictures(name, excite):
    with torch.device("meta"):
        network = cifar_network(name, 100, excite=excite)
        blocks = [m for m in network.modules() if type(m).__name__ in ("SEBlock", "NRSExcite")]
        assert network(torch.empty(2, 3, 32, 32)).shape == (2, 100)
    expected = {"resnet20": 9, "resnet50": 16, "inception_v3": 11}[name]
    assert len(blocks) == (0 if excite == "none" else expected)


def test_networks_for_small_pictures_learn_and_repeat():
    network = cifar_network("resnet20", 10, excite="nrs", seed=1)
    again = cifar_network("resnet20", 10, excite="nrs", seed=1)
    assert all(torch.equal(v, again.state_dict()[k]) for k, v in network.state_dict().items())
    network(torch.randn(4, 3, 32, 32)).sum().backward()
    assert all(p.grad is not None for p in network.parameters())
    with pytest.raises(ValueError, match="name must be one of"):
        cifar_network("resnet21")
    with pytest.raises(ValueError, match="excite must be one of"):
        cifar_network("resnet20", excite="eca")


def test_nothing_of_torchvision_is_imported_by_the_package_itself():
    code = "import sys, nrs.vision; assert not {'torchvision', 'timm'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_missing_torchvision_names_the_extra():
    code = (
        "import sys; sys.modules['torchvision'] = None\n"
        "from nrs.vision._torchvision import timm\n"
        "try: timm()\n"
        "except ImportError as error: print(error)\n"
    )
    process = Forked(code)
    assert "pip install 'neural-random-subspace[vision]'" in "".join(process.rest())
    assert process.returncode == 0


def test_which_of_torchvisions_weights_are_fetched_is_a_setting(monkeypatch):
    asked = []
    models = torchvision().models
    make = models.get_model

    def fetch(name, weights, **extras):
        asked.append(weights)
        return make(name, weights=None, **extras)

    monkeypatch.setattr(models, "get_model", fetch)
    for release in ({}, {"release": "IMAGENET1K_V1"}):
        build_model(ModelSettings("torchvision/resnet18", pretrained=True, **release), 5)
    build_model(ModelSettings("torchvision/resnet18"), 5)
    assert asked == ["DEFAULT", "IMAGENET1K_V1", None]


def test_weights_that_cannot_be_fetched_say_what_to_do(monkeypatch):
    def create_model(*args, **kwargs):
        raise OSError("no route to host\nRetrying in 1s")

    monkeypatch.setattr(timm(), "create_model", create_model)
    settings = ModelSettings("timm/resnet18", pretrained=True)
    with pytest.raises(ValueError, match=r"resnet18: no route to host\. .*model\.weights=FILE"):
        build_model(settings, 3)
    with pytest.raises(ValueError, match=r"no route to host$"):
        build_model(settings, 3, fetch=False)


@pytest.mark.parametrize("head", ["linear", "nrs"])
@pytest.mark.parametrize(
    ("name", "auxiliary"),
    [("torchvision/googlenet", ["aux1.fc2", "aux2.fc2"]), ("timm/resnet18", [])],
)
def test_auxiliary_classifiers_are_of_the_head(name, auxiliary, head):
    with torch.device("meta"):
        model = build_model(ModelSettings(name, head=head), 3)
        names = head_names(model)
        assert names[1:] == auxiliary
        assert names[0] == "fc"
        of_head = {id(p) for p in head_parameters(model)}
        layers = [p for layer in layer_parameters(model) for p in layer]
        assert of_head.isdisjoint(map(id, layers))
        assert len(of_head) + len(layers) == len(list(model.parameters()))
