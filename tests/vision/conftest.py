"""Tiny pictures, a folder a class."""

import pytest

from nrs.paper.tiny_sets import write_pictures


@pytest.fixture(scope="session")
def pictures(tmp_path_factory):
    return write_pictures("folder", tmp_path_factory.mktemp("pictures"))
