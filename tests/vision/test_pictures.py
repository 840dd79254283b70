"""Pictures as people have them: used, or named and skipped."""

import os

import numpy as np
import pytest
from PIL import Image

from nrs.training import SampleError
from nrs.vision.pictures import list_pictures, open_picture, read_folder

_RAMP = np.linspace(0, 255, 40 * 30).reshape(30, 40).astype(np.uint8)


@pytest.fixture
def photo():
    return Image.fromarray(np.stack([_RAMP, _RAMP[::-1], _RAMP], axis=-1))


def _pixels(path):
    picture = open_picture(path)
    assert picture.mode == "RGB"
    return np.asarray(picture).astype(int)


def test_hidden_and_empty_folders_and_other_files_are_left_out(tmp_path, photo):
    for place in ("a/1.png", "a/more/2.JPG", "b/1.png", ".cache/3.png", "a/._1.png", "a/.x/4.png"):
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        photo.convert("RGB").save(tmp_path / place, format="png")
    for name in ("empty", "texts", "a/folder.png"):
        (tmp_path / name).mkdir()
    (tmp_path / "texts" / "read.me").write_text("no picture")
    os.mkfifo(tmp_path / "b" / "pipe.png")
    found = read_folder(tmp_path)
    assert found.classes == ["a", "b"]
    assert [path.relative_to(tmp_path).as_posix() for path in found.items] == [
        "a/1.png", "a/more/2.JPG", "b/1.png",
    ]  # fmt: skip
    # An empty folder of test pictures is no stranger.
    assert len(read_folder(tmp_path, classes=["a", "b", "c"])) == 3
    assert len(list_pictures(tmp_path)) == 3


@pytest.mark.parametrize("turn", range(1, 9))
def test_pictures_are_upright(tmp_path, photo, turn):
    exif = Image.Exif()
    exif[0x0112] = turn
    # As a camera writes a picture that it held in this way.
    back = {2: 0, 3: 3, 4: 1, 5: 5, 6: 2, 7: 6, 8: 4}
    held = photo.transpose(Image.Transpose(back[turn])) if turn > 1 else photo
    held.save(tmp_path / "a.png", exif=exif)
    np.testing.assert_array_equal(_pixels(tmp_path / "a.png"), np.asarray(photo))


def test_sixteen_bits_cmyk_animations_and_palettes_are_used(tmp_path, photo):
    grey = _RAMP.astype(int)[..., None].repeat(3, axis=-1)
    Image.fromarray(_RAMP.astype(np.uint16) * 257).save(tmp_path / "deep.png")
    Image.fromarray(_RAMP.astype(np.uint16) * 257).save(tmp_path / "deep.tif")
    Image.fromarray(_RAMP.astype(np.int32) * 257).save(tmp_path / "whole.tif")
    Image.fromarray((_RAMP / 255).astype(np.float32)).save(tmp_path / "shares.tif")
    for name in ("deep.png", "deep.tif", "whole.tif", "shares.tif"):
        np.testing.assert_array_equal(_pixels(tmp_path / name), grey, err_msg=name)
    photo.convert("CMYK").save(tmp_path / "print.jpg", quality=100)
    assert abs(_pixels(tmp_path / "print.jpg") - np.asarray(photo)).mean() < 3
    other = Image.new("RGB", photo.size, (250, 0, 0))
    for name in ("film.gif", "film.webp", "film.png"):
        photo.save(tmp_path / name, save_all=True, append_images=[other], duration=50)
        assert abs(_pixels(tmp_path / name) - np.asarray(photo)).mean() < 12
    photo.quantize(16).save(tmp_path / "palette.png", transparency=bytes([0, 128]))
    assert _pixels(tmp_path / "palette.png").shape == (30, 40, 3)
    photo.convert("RGBA").save(tmp_path / "clear.png")
    np.testing.assert_array_equal(_pixels(tmp_path / "clear.png"), np.asarray(photo))


def test_damaged_huge_and_empty_files_are_named(tmp_path, photo, monkeypatch):
    for name in ("cut.jpg", "cut.png", "cut.webp"):
        photo.save(tmp_path / name)
        whole = (tmp_path / name).read_bytes()
        (tmp_path / name).write_bytes(whole[: len(whole) // 2])
    (tmp_path / "zero.png").write_bytes(b"")
    (tmp_path / "text.jpg").write_text("no picture")
    os.mkfifo(tmp_path / "pipe.png")
    photo.save(tmp_path / "huge.png")
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 500)
    for path in sorted(tmp_path.iterdir()):
        with pytest.raises(SampleError) as caught:
            open_picture(path)
        assert str(caught.value).startswith(f"{path} cannot be read as an image: ")
        assert str(caught.value).count(str(path)) == 1
    with pytest.raises(SampleError, match="decompression bomb"):
        open_picture(tmp_path / "huge.png")
    with pytest.raises(FileNotFoundError, match="File not found"):
        open_picture(tmp_path / "none.png")
