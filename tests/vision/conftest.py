"""Tiny pictures, a folder a class."""

import pytest

from nrs.paper.pictures import tiny_pictures


@pytest.fixture(scope="session")
def pictures(tmp_path_factory):
    return tiny_pictures(tmp_path_factory.mktemp("pictures"))
