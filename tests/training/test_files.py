import errno
import json
import os

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save

from nrs.training import (
    ModelFile,
    ModelFileError,
    files,
    loading,
    made_now,
    read_kind,
    read_model,
    write_model,
)

torch.set_num_threads(1)

HEADER = {"classes": ["a", "é"], "n_mul": 3, "lr": 1e-3, "nested": {"none": None, "yes": True}}


def example_tensors():
    base = torch.arange(12.0).reshape(3, 4)
    return {
        "weight": base,
        "shared": base,
        "transposed": base.T,
        "scalar": torch.tensor(2.5, dtype=torch.float64),
        "empty": torch.empty(0, 3),
        "half": torch.ones(3, dtype=torch.bfloat16),
        "flags": torch.tensor([True, False]),
        "index": torch.tensor([[2, 1]]),
    }


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "model.safetensors"
    write_model(path, example_tensors(), HEADER, kind="table")
    return path


def assert_refused(path, match):
    with pytest.raises(ModelFileError, match=match) as caught:
        read_model(path)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__ or caught.value.__context__ is None
    assert len(str(caught.value).splitlines()) <= 3
    assert str(path) in str(caught.value)


def test_round_trip_keeps_values_types_and_shapes(path):
    file = read_model(path)
    assert (file.kind, file.header, file.format_version) == ("table", HEADER, 2)
    assert file.tensors.keys() == example_tensors().keys()
    for name, tensor in example_tensors().items():
        assert file.tensors[name].dtype == tensor.dtype
        assert file.tensors[name].is_contiguous()
        assert torch.equal(file.tensors[name], tensor)


def test_tensors_read_back_are_aligned_and_writable(path):
    tensors = read_model(path).tensors
    assert all(t.data_ptr() % 64 == 0 for t in tensors.values())
    tensors["weight"].zero_()
    assert read_model(path).tensors["weight"].sum() == 66


@settings(max_examples=30, deadline=None)
@given(
    st.dictionaries(
        st.text(min_size=1, max_size=8).filter(lambda s: s != "__metadata__"),
        st.lists(st.floats(width=32, allow_nan=False), max_size=5),
        max_size=4,
    ),
    st.dictionaries(
        st.text(max_size=8),
        st.recursive(
            st.none()
            | st.booleans()
            | st.integers()
            | st.text()
            | st.floats(allow_nan=False).filter(lambda v: abs(v) != float("inf")),
            lambda inner: st.lists(inner, max_size=3),
            max_leaves=5,
        ),
        max_size=4,
    ),
)
def test_any_content_survives(tmp_path_factory, values, header):
    path = tmp_path_factory.mktemp("any") / "model.safetensors"
    write_model(path, {n: torch.tensor(v) for n, v in values.items()}, header, kind="table")
    file = read_model(path)
    assert file.header == header
    assert {n: t.tolist() for n, t in file.tensors.items()} == values


@settings(max_examples=400, deadline=None)
@given(position=st.floats(0, 1, exclude_max=True), flip=st.integers(1, 255))
def test_a_flipped_byte_is_refused(small_file, position, flip):
    content, folder = small_file
    index = int(position * len(content))
    altered = bytearray(content)
    altered[index] ^= flip
    path = folder / "altered.safetensors"
    path.write_bytes(altered)
    try:
        file = read_model(path)
    except ModelFileError:
        return
    # White space or the case of an escape's digit may change; what it says may not.
    assert file.header == HEADER
    assert file.kind == "table"
    assert torch.equal(file.tensors["weight"], torch.arange(6.0))
    assert file.tensors.keys() == {"weight"}


@pytest.fixture(scope="module")
def small_file(tmp_path_factory):
    folder = tmp_path_factory.mktemp("altered")
    write_model(folder / "whole.safetensors", {"weight": torch.arange(6.0)}, HEADER, kind="table")
    return (folder / "whole.safetensors").read_bytes(), folder


def test_a_truncated_file_is_refused_at_every_length(small_file):
    content, folder = small_file
    path = folder / "truncated.safetensors"
    for length in range(len(content)):
        path.write_bytes(content[:length])
        with pytest.raises(ModelFileError):
            read_model(path)


@pytest.mark.parametrize("extra", [b"x", bytes(64)])
def test_trailing_bytes_are_refused(path, extra):
    path.write_bytes(path.read_bytes() + extra)
    assert_refused(path, "whole and unaltered")


@pytest.mark.parametrize(
    "content", [b"", b"PK\x03\x04 a zip file", b"\x80\x04pickle....", bytes(99)]
)
def test_another_format_is_refused(path, content):
    path.write_bytes(content)
    assert_refused(path, "that nrs saved")


def test_a_safetensors_file_of_another_program_is_refused(path):
    from safetensors.torch import save_file

    save_file({"weight": torch.ones(2)}, path)
    assert_refused(path, "no entry 'nrs'")
    save_file({"weight": torch.ones(2)}, path, metadata={"nrs": json.dumps({"format": "other"})})
    assert_refused(path, "its format is not 'nrs-model'")


def test_a_swapped_tensor_is_refused(path):
    from safetensors import safe_open
    from safetensors.torch import load_file, save_file

    with safe_open(path, "pt") as file:
        metadata = file.metadata()
    tensors = load_file(path)
    tensors["weight"], tensors["shared"] = tensors["weight"] + 1, tensors["shared"]
    save_file(tensors, path, metadata=metadata)
    assert_refused(path, "checksum")


def test_a_newer_format_is_refused(path, monkeypatch):
    monkeypatch.setattr(files, "FORMAT_VERSION", 7)
    write_model(path, {}, {}, kind="table")
    monkeypatch.undo()
    assert_refused(path, "format version 7.*upgrade nrs")


def test_an_older_format_is_upgraded_step_by_step(path, monkeypatch):
    def upgrade(by, key):
        def apply(file):
            header = {**file.header, key: len(file.header)}
            return ModelFile(file.kind, header, file.arrays, file.format_version + by)

        return apply

    monkeypatch.setattr(files, "FORMAT_VERSION", 4)
    monkeypatch.setattr(files, "_UPGRADES", {2: upgrade(1, "third"), 3: upgrade(1, "fourth")})
    file = read_model(path)
    assert file.format_version == 4
    assert file.header == {**HEADER, "third": 4, "fourth": 5}

    monkeypatch.setattr(files, "_UPGRADES", {3: upgrade(1, "fourth")})
    assert_refused(path, "older nrs")


def test_a_file_of_version_1_is_read(path, monkeypatch):
    monkeypatch.setattr(files, "FORMAT_VERSION", 1)
    monkeypatch.setattr(files, "_made_small", lambda tensor, dtype: tensor)
    write_model(path, example_tensors(), HEADER, kind="table")
    monkeypatch.undo()
    file = read_model(path)
    assert (file.header, file.format_version) == (HEADER, files.FORMAT_VERSION)
    assert torch.equal(file.tensors["index"], example_tensors()["index"])


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=3), st.integers(0, 63))
def test_integers_take_few_bytes_and_lose_none(tmp_path_factory, values, shift):
    path = tmp_path_factory.mktemp("any") / "model.safetensors"
    whole = torch.tensor(values) >> shift
    write_model(path, {"index": whole}, {}, kind="table")
    found = read_model(path).tensors["index"]
    assert found.dtype == torch.int64
    assert torch.equal(found, whole)
    bounds = [(torch.uint8, 0, 255), (torch.int16, -(2**15), 2**15 - 1)]
    bounds.append((torch.int32, -(2**31), 2**31 - 1))
    fitting = (t for t, low, high in bounds if all(low <= v <= high for v in whole.tolist()))
    assert stored(path)["index"].dtype == next(fitting, torch.int64)


def stored(path):
    from safetensors.torch import load_file

    return load_file(path)


def test_weights_in_half_precision_come_back_rounded_once(path):
    tensors = {
        "weight": torch.randn(3, 4),
        "large": torch.tensor([[1.0, 70_000.0]]),
        "bias": torch.tensor([0.1, 0.2]),
        "column": torch.tensor([[0.1], [0.2]]),
        "double": torch.randn(2, 2, dtype=torch.float64),
    }
    write_model(path, tensors, {}, kind="table", dtype="float16")
    found = read_model(path).tensors
    assert torch.equal(found.pop("weight"), tensors.pop("weight").half().float())
    assert stored(path)["weight"].dtype == torch.float16
    for name, tensor in tensors.items():
        assert found[name].dtype == tensor.dtype
        assert torch.equal(found[name], tensor)
    with pytest.raises(ValueError, match=r"'float32', 'float16'.*'bfloat16'"):
        write_model(path, tensors, {}, kind="table", dtype="bfloat16")


@pytest.mark.parametrize(
    "types",
    [5, {"weight": "float32"}, {"absent": "int64"}, {"index": "float32"}, {"index": []},
     {"index": "complex128"}],
)  # fmt: skip
def test_a_header_that_says_wrong_types_is_refused(path, types):
    with open(path, "rb") as file:
        facts = files._read_facts(file, path)
    facts["in_memory"] = types
    del facts["sha256"]
    content = stored(path)
    facts["sha256"] = files._checksum(facts, content)
    path.write_bytes(save(content, metadata={"nrs": json.dumps(facts)}))
    assert_refused(path, "says of no tensor it has")


def test_the_kind_can_be_asked_for(path):
    assert read_model(path, kind="table").kind == "table"
    with pytest.raises(ModelFileError, match=r"'image'.*'table'"):
        read_model(path, kind="image")


@pytest.mark.parametrize("value", [float("nan"), object(), torch.ones(2), {1, 2}])
def test_a_header_that_json_cannot_say_is_refused(path, value):
    before = path.read_bytes()
    with pytest.raises(TypeError, match="JSON"):
        write_model(path, {}, {"value": value}, kind="table")
    assert path.read_bytes() == before


def test_missing_file_and_missing_directory(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_model(tmp_path / "absent.safetensors")
    with pytest.raises(FileNotFoundError, match="create it first"):
        write_model(tmp_path / "absent" / "m.safetensors", {}, {}, kind="table")


@pytest.mark.parametrize("failing", ["fsync", "replace"])
def test_a_failing_disk_leaves_the_old_file_and_no_other(path, monkeypatch, failing):
    def full(*args):
        raise OSError(errno.ENOSPC, "No space left on device")

    before = path.read_bytes()
    monkeypatch.setattr(os, failing, full)
    with pytest.raises(OSError, match="No space left"):
        write_model(path, {"weight": torch.ones(9)}, {}, kind="table")
    monkeypatch.undo()
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == [path.name]


def test_reading_never_unpickles(path, monkeypatch):
    import pickle

    def forbidden(*args, **kwargs):
        raise AssertionError("a model file was unpickled")

    for name in ("load", "loads", "Unpickler"):
        monkeypatch.setattr(pickle, name, forbidden)
    monkeypatch.setattr(torch, "load", forbidden)
    assert read_model(path).header == HEADER


def rewritten(path, change):
    """Write a file with other JSON in its header, its tensors as they are."""
    content = path.read_bytes()
    length = int.from_bytes(content[:8], "little")
    header = change(content[8 : 8 + length].decode()).encode()
    path.write_bytes(len(header).to_bytes(8, "little") + header + content[8 + length :])


def test_two_values_of_a_key_are_refused(path):
    rewritten(path, lambda text: text.replace("{", '{"weight": 1, ', 1))
    assert_refused(path, "its header is not JSON")
    write_model(path, {}, HEADER, kind="table")
    start = '{\\"format\\"'
    rewritten(path, lambda text: text.replace(start, '{\\"kind\\": 1, \\"format\\"'))
    assert_refused(path, "entry 'nrs' of its metadata is not JSON")


@pytest.mark.parametrize("constant", ["NaN", "Infinity", "[" * 100_000])
def test_what_is_not_json_is_refused(path, constant):
    rewritten(path, lambda text: text.replace("0.001", constant))
    assert_refused(path, "is not JSON")


@pytest.mark.parametrize("length", [0, 1, 10**9, 2**63])
def test_the_length_of_a_header_is_bounded(path, length):
    path.write_bytes(length.to_bytes(8, "little") + path.read_bytes()[8:])
    assert_refused(path, "its header claims")
    with pytest.raises(ModelFileError, match="claims"):
        read_kind(path)


def test_the_number_of_tensors_is_bounded(path, monkeypatch):
    monkeypatch.setattr(files, "MAX_TENSORS", 5)
    assert_refused(path, "it claims 9 tensors")


def test_a_header_that_no_reader_takes_is_not_written(path, monkeypatch):
    before = path.read_bytes()
    monkeypatch.setattr(files, "MAX_HEADER", 1000)
    with pytest.raises(ValueError, match="at most 1,000 bytes"):
        write_model(path, {}, {"long": "x" * 1000}, kind="table")
    assert path.read_bytes() == before


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_only_regular_files_are_read(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path, "/dev/zero"):
        for read in (read_model, read_kind):
            with pytest.raises(ModelFileError, match="not a regular file"):
                read(path)


@pytest.mark.parametrize(
    "error",
    [
        KeyError("classes"),
        IndexError("list index out of range"),
        TypeError("no"),
        ValueError("no"),
        RuntimeError("shape\nof many lines"),
        OverflowError("int too large"),
        RecursionError("maximum recursion depth"),
        MemoryError(),
        AttributeError("no"),
        ZeroDivisionError("no"),
        ModelFileError("header.x must be 1"),
    ],
)
def test_whatever_goes_wrong_in_loading_names_the_file(error):
    expected = pytest.raises(ModelFileError, match=r"^Cannot load m\.safetensors: ")
    with expected as caught, loading("m.safetensors"):
        raise error
    assert caught.value.__suppress_context__
    assert "\n" not in str(caught.value)


def test_a_missing_package_or_file_is_not_the_model_files_fault():
    for error in (ImportError("install timm"), FileNotFoundError("x"), KeyboardInterrupt()):
        with pytest.raises(type(error)), loading("m.safetensors"):
            raise error


def test_a_file_remembers_where_it_comes_from(path, monkeypatch):
    made = read_model(path).made
    assert {"nrs", "torch", "numpy", "python", "platform"} == set(made)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "86400")
    given = made_now(seed=3, rows=10, fingerprint=None)
    assert (given["time"], given["seed"], given["rows"]) == ("1970-01-02T00:00:00Z", 3, 10)
    write_model(path, {}, {}, kind="table", made={**given, "torch": "2.0"})
    found = read_model(path).made
    assert (found["torch"], found["rows"], found["python"]) == ("2.0", 10, made["python"])
    before = path.read_bytes()
    write_model(path, {}, {}, kind="table", made=found)
    assert path.read_bytes() == before


def test_the_origin_names_neither_host_nor_user(path):
    import getpass
    import platform

    text = json.dumps(made_now())
    assert platform.node() not in text
    assert getpass.getuser() not in text


@pytest.mark.parametrize("made", [None, 5, [], "x"])
def test_no_origin_is_needed(path, monkeypatch, made):
    def write(content, metadata):
        facts = json.loads(metadata["nrs"])
        del facts["made"], facts["sha256"]
        if made is not None:
            facts["made"] = made
        facts["sha256"] = files._checksum(facts, content)
        return files_save(content, metadata={"nrs": json.dumps(facts)})

    files_save = files._saved
    monkeypatch.setattr(files, "_saved", write)
    write_model(path, example_tensors(), HEADER, kind="table")
    file = read_model(path)
    assert (file.header, file.made) == (HEADER, {})
