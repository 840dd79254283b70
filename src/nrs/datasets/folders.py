"""Where datasets lie on this machine: the folders of ``NRS_DATA``, then the user's cache."""

from __future__ import annotations

import os
from pathlib import Path


def data_folders() -> list[Path]:
    """Give the folders that ``NRS_DATA`` names (several apart by ``os.pathsep``), in order."""
    listed = os.environ.get("NRS_DATA", "")
    return [Path(folder).expanduser() for folder in listed.split(os.pathsep) if folder.strip()]


def cache_folder() -> Path:
    """Give the folder for fetched data: ``NRS_CACHE``, else ``nrs`` in the user's cache."""
    chosen = os.environ.get("NRS_CACHE", "").strip()
    if chosen:
        return Path(chosen).expanduser()
    base = os.environ.get("XDG_CACHE_HOME", "").strip()
    return (Path(base) if base else Path.home() / ".cache") / "nrs"


def search_folders() -> list[Path]:
    """Give the folders to search, in order: those of ``NRS_DATA``, then the cache."""
    return [*data_folders(), cache_folder()]
