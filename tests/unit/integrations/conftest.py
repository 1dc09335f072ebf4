"""A tiny model on disk."""

import pytest
import tiny


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tiny.folder(tmp_path_factory.mktemp("model") / "tiny")
