"""Weights of other programs and of our own runs go into networks with another head."""

import pytest
import torch
from safetensors.torch import save_file

from nrs.training import write_model
from nrs.vision import ModelSettings, build_model, cifar_network
from nrs.vision.weights import read_weights


@pytest.fixture
def theirs():
    return cifar_network("resnet20", 7, seed=3).state_dict()


def _build(path, classes=5, **settings):
    settings = ModelSettings("cifar/resnet20", weights=str(path), **settings)
    return build_model(settings, classes, seed=0).state_dict()


def _body(state):
    return next(name for name in state if name.startswith("features.5") and state[name].dim() == 4)


@pytest.mark.parametrize("head", ["linear", "nrs"])
@pytest.mark.parametrize(
    "wrap",
    [
        lambda state: state,
        lambda state: {"state_dict": {f"module.{n}": t for n, t in state.items()}, "epoch": 3},
        lambda state: {"model": {n: t for n, t in state.items() if not n.startswith("fc.")}},
        lambda state: {n: t for n, t in state.items() if "num_batches" not in n},
    ],
    ids=["plain", "wrapped", "headless", "old"],
)
def test_files_of_torch(tmp_path, theirs, wrap, head):
    torch.save(wrap(theirs), tmp_path / "w.pth")
    found = _build(tmp_path / "w.pth", head=head)
    assert torch.equal(found[_body(theirs)], theirs[_body(theirs)])
    assert found["fc.weight" if head == "linear" else "fc.fc.weight"].shape[0] == 5


def test_safetensors_and_the_same_number_of_classes(tmp_path, theirs):
    save_file(theirs, tmp_path / "w.safetensors")
    found = _build(tmp_path / "w.safetensors", 7)
    assert all(torch.equal(found[name], theirs[name]) for name in theirs)


@pytest.mark.parametrize("head", ["nrs", "bilinear"])
def test_model_files_of_our_own(tmp_path, head):
    settings = ModelSettings("cifar/resnet20", head=head)
    first = build_model(settings, 7, seed=5).state_dict()
    header = {"model": vars(settings), "picture": {}, "classes": list("abcdefg")}
    write_model(tmp_path / "run.safetensors", first, header, kind="image")
    same = _build(tmp_path / "run.safetensors", 7, head=head)
    assert all(torch.equal(same[name], first[name]) for name in first)
    # With other classes the last layer alone is new: subspaces stay with their weights.
    other = _build(tmp_path / "run.safetensors", 3, head=head)
    new = {name for name in first if not torch.equal(other[name], first[name])}
    assert new == ({"fc.fc.weight", "fc.fc.bias"} if head == "nrs" else {"fc.weight", "fc.bias"})


def test_what_does_not_fit_is_named(tmp_path, theirs):
    wide = dict(theirs)
    wide[_body(theirs)] = torch.zeros(1, 2, 3, 3)
    del wide[next(iter(wide))]
    torch.save(wide, tmp_path / "w.pth")
    with pytest.raises(
        ValueError, match=r"must hold the weights of .*it lacks .*\[1, 2, 3, 3\], not"
    ):
        _build(tmp_path / "w.pth")
    with pytest.raises(FileNotFoundError, match="File not found"):
        read_weights(tmp_path / "none.pth")
    for name, content in (("a.pth", b"no zip"), ("a.safetensors", b"none"), ("b.pth", b"")):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ValueError, match="must hold the weights of a network"):
            read_weights(tmp_path / name)
    torch.save([1, 2], tmp_path / "list.pth")
    with pytest.raises(ValueError, match="no tensors by name"):
        read_weights(tmp_path / "list.pth")
    write_model(tmp_path / "cloud", {}, {}, kind="points")
    with pytest.raises(ValueError, match="a model of kind 'points'"):
        read_weights(tmp_path / "cloud")


class _Evil:
    def __reduce__(self):
        return (open, ("touched", "w"))


def test_nothing_in_a_file_is_executed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    torch.save({"weight": _Evil()}, "evil.pth")
    with pytest.raises(ValueError, match="not safe to read"):
        read_weights("evil.pth")
    assert not (tmp_path / "touched").exists()
