"""Commands find what a kind of model can do."""

import pytest
import typer

from nrs.cli.kinds import PACKAGES, SKIPPED, end_skipped, work_of


@pytest.mark.parametrize("kind", PACKAGES)
def test_every_kind_predicts(kind):
    assert callable(work_of(kind, "predict").predict_file)


def test_what_no_package_does_is_refused():
    with pytest.raises(ValueError, match="models of kind 'image' have no `nrs compare`"):
        work_of("image", "compare")
    with pytest.raises(ValueError, match="models of kind 'checkpoint' have no `nrs predict`"):
        work_of("checkpoint", "predict")


def test_skipped_files_are_named_where_no_output_is(capsys):
    end_skipped([])
    with pytest.raises(typer.Exit) as ended:
        end_skipped(["a.png cannot be read as an image: \x1b"])
    assert ended.value.exit_code == SKIPPED
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("skipped: a.png cannot be read as an image: \\x1b\n")
    assert "skipped files: 1" in said.err
