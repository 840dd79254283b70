"""Experiments as TOML files: what they may say, and how mistakes are told."""

from dataclasses import dataclass

import pytest

from nrs.training import ConfigError, TrainSettings, read_config
from nrs.training.config import config_values


@dataclass(frozen=True)
class Model:
    name: str
    n_mul: int | None = None
    mean: tuple[float, ...] = (0.5,)


PARTS = {"model": Model, "train": TrainSettings}


def _read(tmp_path, text, *overrides):
    path = tmp_path / "experiment.toml"
    path.write_text(text)
    return read_config(path, PARTS, overrides)


def test_sections_become_their_parts(tmp_path):
    text = '# nrs train x\n[model]\nname = "a"\nmean = [1.0, 2.0]\n[train]\nlr = 1\nepochs = 3\n'
    config = _read(tmp_path, text)
    assert config["model"] == Model("a", None, (1.0, 2.0))
    assert (config["train"].lr, config["train"].epochs) == (1.0, 3)
    assert type(config["train"].lr) is float
    assert config_values(config)["model"]["name"] == "a"


def test_overrides_win_and_are_typed(tmp_path):
    text = '[model]\nname = "a"\n'
    config = _read(tmp_path, text, "train.lr=0.5", "model.n_mul=4", "model.name=resnet20")
    assert (config["train"].lr, config["model"]) == (0.5, Model("resnet20", 4))
    # A later override replaces an earlier one.
    assert _read(tmp_path, text, "train.epochs=2", "train.epochs=7")["train"].epochs == 7


@pytest.mark.parametrize(
    ("text", "overrides", "message"),
    [
        ('[modl]\nname = "a"\n', (), r"no section 'modl'; did you mean 'model'\?"),
        ('[model]\nname = "a"\n[train]\nepoch = 3\n', (), r"'train.epoch'; did you mean 'epochs'"),
        ('[model]\nname = "a"\nzzz = 3\n', (), "known are mean, n_mul, name"),
        ("[model]\nname = 3\n", (), "model.name must be of type str; got 3"),
        ('[model]\nname = "a"\nn_mul = true\n', (), "model.n_mul must be of type int or NoneType"),
        ("[train]\n", (), r"lacks model\.name"),
        ('[model]\nname = "a"\n', ("train.lr=-1",), "lr must be positive"),
        ('[model]\nname = "a"\n', ("lr=1",), r"must be like train\.lr=0\.1"),
        ('[model]\nname = "a"\n', ("trian.lr=1",), r"did you mean 'train'"),
        ("[model\n", (), "must be a TOML file"),
        ("model = 3\n", (), r"must be a section; got 3\. Write \[model\]"),
    ],
)
def test_mistakes_name_what_was_meant(tmp_path, text, overrides, message):
    with pytest.raises(ConfigError, match=message):
        _read(tmp_path, text, *overrides)


@pytest.mark.parametrize(
    ("written", "message"),
    [
        (b"train = 3", r"train of .* must be a section; got 3"),
        (b"[[train]]\nlr = 1.0", r"train of .* must be a section"),
        ("# \xe9t\xe9".encode("latin-1"), "must be a TOML file: 'utf-8' codec"),
    ],
)
def test_what_is_no_section_or_no_text_is_told(tmp_path, written, message):
    path = tmp_path / "run.toml"
    path.write_bytes(written)
    with pytest.raises(ConfigError, match=message):
        read_config(path, {"train": TrainSettings}, ["train.lr=0.1"])


def test_a_byte_order_mark_is_no_part_of_the_file(tmp_path):
    path = tmp_path / "run.toml"
    path.write_text("[train]\nepochs = 3\n", encoding="utf-8-sig")
    assert read_config(path, {"train": TrainSettings})["train"].epochs == 3
