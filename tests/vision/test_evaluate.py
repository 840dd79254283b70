"""A model on a labelled folder: which pictures count, and what is said of them."""

from dataclasses import asdict

import pytest

from nrs.pages.folder_report import draw_folder_report
from nrs.training import write_model
from nrs.vision import ModelSettings, build_model
from nrs.vision.data import DataSettings, Preparation, read_data
from nrs.vision.evaluate import evaluate_folder
from nrs.vision.predict import ImageModel

PREPARED = Preparation(size=16, resize=18)


def _model(path, classes=("class-0", "class-1", "class-2"), split=None):
    settings = ModelSettings("cifar/resnet20")
    network = build_model(settings, len(classes), seed=0)
    header = {
        "model": vars(settings), "picture": asdict(PREPARED), "classes": list(classes),
        "split": split,
    }  # fmt: skip
    write_model(path, network.state_dict(), header, kind="image")
    return path


def test_test_pictures_count_where_there_are_some(tmp_path, pictures):
    evaluated = evaluate_folder(_model(tmp_path / "m"), pictures)
    assert evaluated.note == "the images in test/"
    assert len(evaluated.paths) == 6
    model = ImageModel.load(tmp_path / "m")
    chances = model.probabilities(evaluated.paths).numpy()
    assert evaluated.scored.probabilities == pytest.approx(chances, abs=1e-6)
    truth = [path.parent.name for path in evaluated.paths]
    assert evaluated.scored.truth.tolist() == truth
    worst = evaluated.worst(2)
    of_truth = [chances[k, int(name[-1])] for k, name in enumerate(truth)]
    assert [of_truth[k] for k in worst] == sorted(of_truth)[:2]


def test_pictures_of_training_do_not_count(tmp_path, pictures):
    folder = pictures / "train"
    parts = read_data(DataSettings(root=str(folder)), PREPARED, seed=3)
    assert (len(parts.train), len(parts.test)) == (9, 3)
    assert parts.split["share"] == 0.2
    evaluated = evaluate_folder(_model(tmp_path / "m", split=parts.split), folder)
    assert evaluated.paths == parts.test.items
    assert "3 images that training left out, 20 % of each class" in evaluated.note
    # A folder of other pictures counts whole.
    other = evaluate_folder(tmp_path / "m", pictures / "test")
    assert (len(other.paths), other.note) == (6, "")


def test_classes_in_another_order_and_unknown_ones(tmp_path, pictures):
    straight = evaluate_folder(_model(tmp_path / "m"), pictures).scored.scores()
    classes = ["class-2", "class-0", "class-9"]
    evaluated = evaluate_folder(_model(tmp_path / "other", classes), pictures)
    assert set(evaluated.scored.truth) == {"class-0", "class-1", "class-2"}
    assert set(evaluated.scored.predicted) <= set(classes)
    assert straight.keys() == {"accuracy", "balanced_accuracy", "f1", "log_loss", "roc_auc"}
    with pytest.raises(ValueError, match="must hold a folder for a class of the model, such as"):
        evaluate_folder(_model(tmp_path / "none", ["wren", "tern"]), pictures)


def test_the_page_names_what_was_skipped(tmp_path, pictures):
    import shutil

    shutil.copytree(pictures / "test", tmp_path / "birds")
    (tmp_path / "birds" / "class-1" / "zero.png").write_bytes(b"")
    evaluated = evaluate_folder(_model(tmp_path / "m"), tmp_path / "birds")
    assert [path.name for path, _ in evaluated.skipped] == ["zero.png"]
    page = draw_folder_report(evaluated, "m")
    assert "the file is empty" in page
    assert page.count("<article") == 6
    for path in (tmp_path / "birds").rglob("*.png"):
        path.write_bytes(b"")
    with pytest.raises(ValueError, match="none of the images in"):
        evaluate_folder(tmp_path / "m", tmp_path / "birds")
