"""An experiment is a TOML file that names its parts.

A section a part, each a dataclass that the caller brings; the command that runs the file stands in
a comment on its first line. Nothing in a file is executed.
"""

from __future__ import annotations

import dataclasses
import difflib
import os
import tomllib
import types
import typing
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any


class ConfigError(ValueError):
    """A configuration that says something no part understands."""


def read_config(
    path: str | os.PathLike[str],
    parts: Mapping[str, type],
    overrides: Iterable[str] = (),
) -> dict[str, Any]:
    """Read an experiment: a section of the file for each part.

    Parameters
    ----------
    path : path
        A TOML file.
    parts : mapping of section name to dataclass
        What the sections mean. A section that the file leaves out has its defaults.
    overrides : iterable of str
        ``"section.key=value"``, the value written as in TOML (a bare word is a text). Later ones
        win.

    Returns
    -------
    sections : dict
        An instance of its dataclass for each section's name.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ConfigError
        If it is not TOML, or names a section or key that does not exist, or gives a value of
        another type.

    Examples
    --------
    >>> import tempfile
    >>> from nrs.training import TrainSettings
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     path = Path(directory) / "quick.toml"
    ...     _ = path.write_text("[train]\\nepochs = 3\\n")
    ...     read_config(path, {"train": TrainSettings}, ["train.lr=0.1"])["train"].lr
    0.1
    """
    try:
        # Some editors put a mark before the first line, which is no TOML.
        content = tomllib.loads(Path(path).read_text(encoding="utf-8-sig"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} must be a TOML file: {error}") from None
    for override in overrides:
        _override(content, override, parts)
    return build_config(content, parts, source=str(path))


def build_config(
    content: Mapping[str, Any], parts: Mapping[str, type], *, source: str = "the file"
) -> dict[str, Any]:
    """Turn sections of plain values into their dataclasses; see `read_config`.

    Examples
    --------
    >>> from nrs.training import TrainSettings
    >>> build_config({"train": {"epoch": 3}}, {"train": TrainSettings})
    Traceback (most recent call last):
        ...
    nrs.training.config.ConfigError: the file has no key 'train.epoch'; did you mean 'epochs'?
    """
    for section in content:
        if section not in parts:
            raise _unknown(source, "section", section, section, parts)
    built = {}
    for section, part in parts.items():
        values = content.get(section, {})
        if not isinstance(values, Mapping):
            raise ConfigError(
                f"{section} of {source} must be a section; got {values!r}. Write [{section}]."
            )
        built[section] = _build(source, section, part, values)
    return built


def config_values(config: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """All values of a configuration as plain ones, for a model file's header."""
    return {section: dataclasses.asdict(part) for section, part in config.items()}


def _build(source: str, section: str, part: type, values: Mapping[str, Any]) -> Any:
    types_of = typing.get_type_hints(part)
    names = {field.name for field in dataclasses.fields(part)}
    plain = {}
    for key, value in values.items():
        if key not in names:
            raise _unknown(source, "key", f"{section}.{key}", key, names)
        plain[key] = _typed(f"{section}.{key}", types_of[key], value)
    missing = [
        field.name
        for field in dataclasses.fields(part)
        if field.default is dataclasses.MISSING
        and field.default_factory is dataclasses.MISSING
        and field.name not in plain
    ]
    if missing:
        raise ConfigError(f"{source} lacks {section}.{missing[0]}; add it")
    try:
        return part(**plain)
    except ValueError as error:
        raise ConfigError(f"section [{section}] of {source}: {error}") from None


def _typed(name: str, wanted: Any, value: Any) -> Any:
    """The value if it is of a type that the dataclass wants; whole numbers pass as floats."""
    options = (
        typing.get_args(wanted)
        if typing.get_origin(wanted) in (typing.Union, types.UnionType)
        else (wanted,)
    )
    for option in options:
        origin = typing.get_origin(option) or option
        if origin is typing.Any:
            return value
        if origin is tuple and isinstance(value, (list, tuple)):
            return tuple(value)
        if origin is dict and isinstance(value, Mapping):
            return dict(value)
        if origin is float and type(value) in (int, float):
            return float(value)
        if origin is type(None):
            # TOML has no null: an empty text stands for none.
            if value is None or value == "":
                return None
        elif type(value) is origin:
            return value
    shown = " or ".join(getattr(option, "__name__", str(option)) for option in options)
    raise ConfigError(f"{name} must be of type {shown}; got {value!r}")


def _override(content: dict[str, Any], text: str, parts: Mapping[str, type]) -> None:
    place, equals, written = text.partition("=")
    section, dot, key = place.strip().partition(".")
    if not equals or not dot or not key:
        raise ConfigError(f"an override must be like train.lr=0.1; got {text!r}")
    try:
        value = tomllib.loads(f"value = {written.strip()}")["value"]
    except tomllib.TOMLDecodeError:
        value = written.strip()
    if section not in parts:
        raise _unknown("the configuration", "section", section, section, parts)
    values = content.setdefault(section, {})
    if isinstance(values, dict):  # Anything else is refused with its section.
        values[key] = value


def _unknown(source: str, kind: str, shown: str, name: str, known: Iterable[str]) -> ConfigError:
    known = sorted(known)
    close = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean {close[0]!r}?" if close else f"known are {', '.join(known)}"
    return ConfigError(f"{source} has no {kind} {shown!r}; {hint}")
