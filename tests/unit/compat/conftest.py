"""A model in the published layout, with the oracle's default options and random weights."""

import oracle
import pytest


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path, options = tmp_path_factory.mktemp("model"), oracle.options()
    oracle.write(path, options, oracle.random_weights(options))
    return path
