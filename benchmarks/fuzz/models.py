"""Damaged and forged model files of every kind: refused in words, or loaded and answering.

Laws: only ModelFileError, with a message that names the file and is short, also where a file is
only shown (``nrs info``); no other file, no network, no unpickling; memory and time in proportion
to the file; what is loaded answers finite numbers.
"""

from __future__ import annotations

import contextlib
import functools
import io
import tempfile
import time
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from typer import Exit

from benchmarks.fuzz.forged import damaged, draw_header, draw_layout, draw_tensors, pick, signed
from benchmarks.fuzz.run import BrokenLawError, Watch, peak_memory
from benchmarks.fuzz.specimens import ALL, IMAGES, TABLES, Specimen, specimen
from nrs.cli.info import info
from nrs.training import ModelFileError, read_kind

# Files of a case, all of one specimen.
FILES = 100
# Networks of images and clouds take longer to build.
FEW_FILES = 10
MAX_MESSAGE = 1500
# Processor seconds to load a file or to answer; and memory beyond that of the valid file.
MAX_SECONDS, MAX_MEMORY = 10.0, 300 << 20
TOO_LARGE = "beyond float32"


@functools.cache
def watch() -> Watch:
    return Watch()


def draw_content(rng: np.random.Generator, one: Specimen) -> bytes:
    """A file like the specimen's, damaged or with one to three forged changes."""
    chance = rng.random()
    if chance < 0.2:
        return damaged(rng, one.content)
    if chance < 0.25:
        return draw_layout(rng, one.content)
    facts, tensors = one.facts, one.file.tensors
    for _ in range(pick(rng, [1, 1, 1, 2, 3])):
        chance = rng.random()
        if chance < 0.2:
            tensors = draw_tensors(rng, tensors)
        elif chance < 0.22:
            facts = draw_header(rng, facts)
        elif isinstance(facts.get("header"), dict):
            facts = facts | {"header": draw_header(rng, facts["header"])}
    return signed(facts, tensors)


def check_file(path: Path, one: Specimen) -> str:
    """Load a file and show it, and say whether it was refused; raises if a law is broken."""
    refused = _refusal(path, lambda: read_kind(path)) is not None
    _refusal(path, lambda: _show(path))
    model, begin = [], time.process_time()
    with watch().within(str(path)):
        message = _refusal(path, lambda: model.append(one.load(path)))
        if message is not None:
            return "files refused"
        if refused:
            raise BrokenLawError("loaded a file that has no kind")
        try:
            answers = one.answer(model[0])
        except ValueError as error:
            if TOO_LARGE not in str(error):
                raise
            return "files loaded, rows refused"
    if not all(np.isfinite(answer).all() for answer in answers):
        raise BrokenLawError("answers are not finite")
    if time.process_time() - begin > MAX_SECONDS:
        raise BrokenLawError(f"took more than {MAX_SECONDS} seconds")
    return "files loaded"


def _refusal(path: Path, read: Any) -> str | None:
    """Why a file is not read, if it is not."""
    try:
        read()
    except ModelFileError as error:
        message = str(error)
        if str(path) not in message or len(message) > MAX_MESSAGE:
            raise BrokenLawError(f"refused by {message!r}") from error
        return message
    return None


def _show(path: Path) -> None:
    """What ``nrs info`` does, without its last resort for errors that nobody foresaw."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(Exit):
        info.__wrapped__(path)  # type: ignore[attr-defined]


def check_content(path: Path, content: bytes, one: Specimen) -> str:
    """`check_file` of a file with that content."""
    path.write_bytes(content)
    return check_file(path, one)


def case(rng: np.random.Generator, names: tuple[str, ...] = tuple(ALL)) -> Counter[str]:
    """Damage and forge the file of one specimen many times."""
    name = names[int(rng.integers(len(names)))]
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with np.errstate(all="ignore"):
            counts = _check_many(rng, Path(folder) / "model.safetensors", name)
    kind = "tables" if name in TABLES else "images" if name in IMAGES else "clouds"
    return counts + Counter({f"files of {kind}": counts.total()})


def _check_many(rng: np.random.Generator, path: Path, name: str) -> Counter[str]:
    one, counts = specimen(name), Counter[str]()
    if check_content(path, one.content, one) != "files loaded":
        raise BrokenLawError(f"{name}: refused as it was saved")
    before = peak_memory()
    for _ in range(FILES if name in TABLES else FEW_FILES):
        content = draw_content(rng, one)
        try:
            counts[check_content(path, content, one)] += 1
        except Exception as error:
            raise BrokenLawError(f"{name}: {type(error).__name__}: {error}") from error
    if peak_memory() > before + MAX_MEMORY:
        raise BrokenLawError(f"{name}: took {(peak_memory() - before) >> 20} MB of memory")
    return counts
