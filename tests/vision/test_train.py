"""Recipes: they are readable, they train, go on where they were, and predict."""

import dataclasses
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from nrs.cli.app import app
from nrs.training import ConfigError, ModelFileError, read_model, write_model
from nrs.vision import ModelSettings, build_model
from nrs.vision.models import head_parameters
from nrs.vision.predict import ImageModel, predict_file
from nrs.vision.train import PARTS, classification_loss, read_recipe, recipes, run
from tests.forked import run_ranks

RECIPE = """# nrs train vision --config tiny.toml --output run
[model]
name = "cifar/resnet20"
head = "nrs"
n_mul = 2
[data]
root = "{root}"
[picture]
size = 16
resize = 18
[train]
epochs = 3
lr = 0.05
optimizer = "sgd"
schedule = "cosine"
ema = 0.9
[run]
batch_size = 6
"""


@pytest.fixture
def tiny(pictures, tmp_path):
    path = tmp_path / "tiny.toml"
    path.write_text(RECIPE.format(root=pictures))
    return path


@pytest.mark.parametrize("name", recipes())
def test_every_recipe_reads_and_names_its_command(name):
    from importlib import resources

    first = (resources.files("nrs.vision") / f"recipes/{name}.toml").read_text().splitlines()[0]
    assert first.startswith("# ")
    assert f"nrs train vision --config {name} --output" in first
    parts = read_recipe(name)
    with torch.device("meta"):
        settings = {"pretrained": False, "weights": ""}
        model = build_model(ModelSettings(**vars(parts["model"]) | settings), 200)
    size = parts["picture"].size
    assert model.eval()(torch.empty(1, 3, size, size, device="meta")).shape == (1, 200)


def test_the_papers_settings():
    fine = read_recipe("fine-grained-resnet50-nrs")
    train = fine["train"]
    assert (train.lr, train.epochs, train.step_every, train.step_gamma) == (0.002, 65, 20, 0.1)
    assert (train.weight_decay, fine["run"].batch_size, fine["picture"].size) == (1e-4, 32, 448)
    cifar = read_recipe("cifar-resnet20")
    train = cifar["train"]
    assert (train.lr, train.epochs, train.schedule, train.weight_decay) == (
        0.1,
        350,
        "cosine",
        5e-4,
    )
    assert (cifar["run"].batch_size, cifar["picture"].padding, cifar["picture"].resize) == (
        128, 4, None,
    )  # fmt: skip
    mobile = read_recipe("imagenet-mobilenetv2-nrs")["train"]
    assert (mobile.lr, mobile.epochs, mobile.weight_decay) == (0.05, 150, 4e-5)


def test_a_run_is_a_model_file_that_predicts(tiny, tmp_path, pictures):
    outcome = run(tiny, tmp_path / "run", verbose=0)
    assert len(outcome.history) == 3
    assert "top-1" in outcome.summary()
    header = read_model(outcome.path, kind="image").header
    assert header["classes"] == ["class-0", "class-1", "class-2"]
    assert header["metrics"]["top1"] == outcome.metrics["top1"]
    rows = predict_file(outcome.path, pictures / "test")
    assert len(rows) == 6
    for row in rows:
        assert [entry["label"] for entry in row["top"]] != []
        assert sum(entry["probability"] for entry in row["top"]) == pytest.approx(1, abs=1e-5)
    one = predict_file(outcome.path, rows[0]["input"])
    assert one[0]["top"][0]["label"] == rows[0]["top"][0]["label"]
    # A finished run started again only reads.
    again = run(tiny, tmp_path / "run", verbose=0)
    assert again.history == outcome.history
    assert again.metrics == outcome.metrics


def test_the_saved_network_is_the_trained_one(tiny, tmp_path, pictures):
    outcome = run(tiny, tmp_path / "run", overrides=["model.head=linear"], verbose=0)
    model = ImageModel.load(outcome.path)
    paths = sorted((pictures / "test").rglob("*.png"))
    labels = [int(path.parent.name[-1]) for path in paths]
    right = model.probabilities(paths).argmax(1) == torch.tensor(labels)
    assert 100 * right.float().mean().item() == pytest.approx(outcome.metrics["top1"])


@pytest.mark.parametrize("head", ["linear", "nrs", "bilinear"])
def test_a_head_learns_at_its_own_rate(tiny, tmp_path, head):
    settings = ModelSettings("cifar/resnet20", head=head, n_mul=2 if head == "nrs" else None)
    network = build_model(settings, 3, seed=0)
    of_head = {id(p) for p in head_parameters(network)}
    names = {name.split(".")[0] for name, p in network.named_parameters() if id(p) in of_head}
    assert names == {"fc"}
    changes = [f"model.head={head}", "train.epochs=1", "train.head_lr=0.5", "train.lr=1e-9"]
    outcome = run(tiny, tmp_path / "run", overrides=[*changes, "train.ema=''"], verbose=0)
    before, after = network.state_dict(), read_model(outcome.path).tensors
    changed = {
        name.split(".")[0]
        for name, value in before.items()
        if value.is_floating_point()
        and "running" not in name
        and not torch.allclose(value, after[name], atol=1e-6)
    }
    assert changed == names


@pytest.mark.parametrize("head", ["bilinear", "compact", "isqrt"])
def test_second_order_heads_train_and_load(tiny, tmp_path, head, pictures):
    changes = [f"model.head={head}", "model.sketch=32", "train.epochs=1", "data.held_out=0.25"]
    outcome = run(tiny, tmp_path / "run", overrides=changes, verbose=0)
    assert outcome.history.best_epoch == 0
    assert len(predict_file(outcome.path, pictures / "test")) == 6


def test_another_configuration_does_not_go_on(tiny, tmp_path):
    run(tiny, tmp_path / "run", overrides=["train.epochs=1"], verbose=0)
    with pytest.raises(ValueError, match="belongs to another run"):
        run(tiny, tmp_path / "run", overrides=["train.epochs=1", "run.seed=5"], verbose=0)


def test_auxiliary_losses_count():
    class Two(torch.nn.Module):
        def forward(self, x):
            return x, 2 * x

    x, y = torch.randn(4, 3), torch.tensor([0, 1, 2, 0])
    plain = torch.nn.functional.cross_entropy
    expected = plain(x, y) + 0.4 * plain(2 * x, y)
    assert torch.allclose(classification_loss(0.0)(Two(), x, y), expected)


def test_mistakes():
    with pytest.raises(ConfigError, match="one of birds-efficientnet-lite0, cifar-resnet20"):
        read_recipe("cifar-resnet-20")
    with pytest.raises(ConfigError, match=r"model\.heads.*did you mean 'head'"):
        read_recipe("cifar-resnet20", ["model.heads=nrs"])
    with pytest.raises(ConfigError, match="head must be one of"):
        read_recipe("cifar-resnet20", ["model.head=nsr"])
    with pytest.raises(ValueError, match="timm has no image classifier named 'resnet1000'"):
        build_model(ModelSettings("timm/resnet1000"), 3)
    with pytest.raises(ValueError, match="torchvision has no image classifier"):
        build_model(ModelSettings("torchvision/resnet1000"), 3)
    with pytest.raises(ValueError, match="name must be like"):
        ModelSettings("resnet50")


@pytest.mark.parametrize(
    "settings",
    [
        # Widths computed by tensors; buffers outside of the state dict; layers left out.
        ModelSettings("torchvision/regnet_x_400mf", head="nrs"),
        ModelSettings("timm/swin_tiny_patch4_window7_224"),
        ModelSettings("torchvision/googlenet"),
        ModelSettings("torchvision/mobilenet_v3_small", excite="nrs", pretrained=True),
    ],
    ids=lambda settings: settings.name,
)
def test_networks_of_every_make_load_as_they_were(tmp_path, settings):
    network = build_model(settings, 3, seed=1, fetch=False).eval()
    header = {"model": vars(settings), "picture": {}, "classes": ["a", "b", "c"]}
    write_model(tmp_path / "m", network.state_dict(), header, kind="image")
    x = torch.randn(1, 3, 224, 224)
    with torch.no_grad():
        assert torch.equal(ImageModel.load(tmp_path / "m").network(x), network(x))


def test_a_file_of_another_kind_is_refused(tmp_path):
    path = tmp_path / "model.safetensors"
    write_model(path, {}, {"classes": ["a"]}, kind="image")
    with pytest.raises(ModelFileError, match="header must have the key 'model'"):
        ImageModel.load(path)
    write_model(path, {}, {}, kind="table")
    with pytest.raises(ModelFileError, match="its kind is 'table'"):
        ImageModel.load(path)


def test_the_command_line(tiny, tmp_path, pictures):
    out = tmp_path / "run"
    command = ["train", "vision", "--config", str(tiny), "--output", str(out)]
    result = CliRunner().invoke(app, [*command, "--set", "train.epochs=1"])
    assert result.exit_code == 0, result.output
    assert "top-1" in result.output
    model = str(out / "model.safetensors")
    picture = str(next((pictures / "test").rglob("*.png")))
    result = CliRunner().invoke(app, ["predict", model, picture])
    assert result.exit_code == 0, result.output
    assert picture in result.output
    assert "class-" in result.output
    result = CliRunner().invoke(app, ["predict", model, str(pictures / "test"), "--json"])
    assert len(json.loads(result.output)) == 6
    mixed = tmp_path / "mixed"
    mixed.mkdir()
    (mixed / "broken.png").write_bytes(b"no picture")
    result = CliRunner().invoke(app, ["predict", model, str(mixed)])
    assert result.exit_code == 2
    shutil.copy(picture, mixed / "whole.png")
    result = CliRunner().invoke(app, ["predict", model, str(mixed), "-o", str(mixed / "out.csv")])
    assert result.exit_code == 3
    assert "broken.png cannot be read as an image" in result.output
    assert len((mixed / "out.csv").read_text().splitlines()) == 2
    shown = CliRunner().invoke(app, ["info", model]).output
    for words in ("kind        image", "classes     class-", "scores      ", "train.epochs=1",
                  "seed        ", "fitted to   pictures "):  # fmt: skip
        assert words in shown, words
    saved = tmp_path / "top.csv"
    CliRunner().invoke(app, ["predict", model, str(pictures / "test"), "-o", str(saved)])
    assert saved.read_text().startswith("input,label_1,probability_1")
    for arguments, message in (
        ([*command, "--set", "train.epoch=1"], "did you mean 'epochs'"),
        (["predict", model, str(tiny)], "cannot be read as an image"),
        (["predict", model, str(tmp_path / "run" / "checkpoint")], "must hold images"),
    ):
        result = CliRunner().invoke(app, arguments)
        assert (result.exit_code, message in result.output) == (2, True), result.output
        assert "Traceback" not in result.output


COMMAND = "from nrs.cli.main import main; main()"


def test_two_processes_train_and_one_writes(tiny, tmp_path):
    command = ["train", "vision", "--config", tiny, "--output", tmp_path / "run"]
    said = run_ranks(COMMAND, 2, *command, "--set", "train.epochs=1", "--set", "run.device=cpu")
    assert sum(text.count("top-1") for text in said) == 1
    assert read_model(tmp_path / "run" / "model.safetensors").kind == "image"


@pytest.mark.heavy
def test_torchrun_trains_with_two_processes(tiny, tmp_path):
    start = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    command = ["-m", "nrs", "train", "vision", "--config", str(tiny), "--output", "run"]
    done = subprocess.run(
        [*start, *command, "--set", "train.epochs=1", "--set", "run.device=cpu"],
        cwd=tmp_path, capture_output=True, text=True, timeout=180,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("top-1") == 1  # one process writes
    assert read_model(tmp_path / "run" / "model.safetensors").kind == "image"


def test_every_key_is_on_the_page_with_its_default():
    page = (Path(__file__).parents[2] / "docs" / "vision.md").read_text(encoding="utf-8")
    table = page.partition("| key | default |")[2].partition("\n\n")[0]
    first = {name for line in table.splitlines() for name in _keys(line)}
    keys = {f"{part}.{f.name}" for part, kind in PARTS.items() for f in dataclasses.fields(kind)}
    assert first == keys


def _keys(line):
    return re.findall(r"`(\w+\.\w+)`", line.partition("|")[2].partition("|")[0])


@pytest.mark.parametrize(
    "changes",
    [
        ["augment.mixup=0.4", "augment.cutmix=1.0", "data.balance=loss"],
        ["data.balance=sampling", "train.accumulate=2", "train.precision=fp16"],
        ["train.freeze=true", "model.head=linear"],
        ["train.layer_decay=0.7", "train.head_lr=0.1", "augment.randaugment=1"],
    ],
    ids=lambda changes: changes[0],
)
def test_settings_of_training(tiny, tmp_path, changes):
    first = run(tiny, tmp_path / "run", overrides=[*changes, "train.epochs=1"], verbose=0)
    again = run(tiny, tmp_path / "again", overrides=[*changes, "train.epochs=1"], verbose=0)
    assert first.history == again.history
    longer = [*changes, "train.epochs=2"]
    assert len(run(tiny, tmp_path / "run", overrides=longer, extend=True, verbose=0).history) == 2


def test_a_run_begins_with_the_weights_of_another(tiny, tmp_path):
    first = run(tiny, tmp_path / "run", overrides=["train.epochs=1"], verbose=0)
    changes = ["train.epochs=1", f"model.weights={first.path}", "train.lr=1e-12", "train.ema=''"]
    second = run(tiny, tmp_path / "second", overrides=changes, verbose=0)
    before, after = (read_model(one.path).tensors for one in (first, second))
    names = [name for name in before if name.endswith("weight")]
    assert all(torch.allclose(before[name], after[name], atol=1e-5) for name in names)


def test_the_list_of_recipes_and_what_a_command_needs(tmp_path):
    result = CliRunner().invoke(app, ["train", "vision", "--list"])
    assert result.exit_code == 0
    assert [line.split()[0] for line in result.output.splitlines()] == recipes()
    result = CliRunner().invoke(app, ["train", "vision"])
    assert (result.exit_code, "name a FOLDER of images" in result.output) == (2, True)
    (tmp_path / "2024").mkdir()
    result = CliRunner().invoke(app, ["train", "vision", str(tmp_path / "2024")])
    assert (result.exit_code, "No images found" in result.output) == (2, True), result.output
