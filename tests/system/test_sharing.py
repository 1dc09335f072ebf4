"""One model shared by threads, forked processes, data loaders, an event loop and a pool gives the same vectors."""

import asyncio
import multiprocessing
import pickle
import random
import sys
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import numpy as np
import pytest
import tiny
import torch
from torch.utils.data import DataLoader

from stelmo.engine.packed import WordCache

LETTERS = "abcdefghijklmnopqrstuvwxyz"
needs_fork = pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="the system has no fork")


def sentences(seed: int, count: int = 12) -> list[list[str]]:
    """Mostly words that no other seed has."""
    chance = random.Random(seed)
    return [["the", *("".join(chance.choices(LETTERS, k=5)) for _ in range(chance.randrange(8)))] for _ in range(count)]


def assert_equal(found, expected):
    """To float32 rounding: the last bit of a word's vector can depend on the words it is computed together with."""
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=2e-6)


@pytest.fixture
def switching_often():
    """Threads take turns a thousand times as often as usual."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(5e-6)
    yield
    sys.setswitchinterval(usual)


def test_eight_threads_get_the_vectors_of_one(switching_often):
    model = tiny.model()
    texts = [sentences(seed) for seed in range(24)]
    expected = [tiny.model().embed(text) for text in texts]
    with ThreadPoolExecutor(8) as pool:
        for found, one in zip(pool.map(model.embed, texts), expected, strict=True):
            assert_equal(found, one)


def test_a_word_cache_shared_by_threads_never_mixes_words_up(switching_often):
    remembered = WordCache(lambda words: torch.tensor([[float(word)] for word in words]), 50)
    texts = [[str(number) for number in random.Random(seed).sample(range(200), 10)] for seed in range(400)]
    with ThreadPoolExecutor(8) as pool:
        for found, words in zip(pool.map(remembered, texts), texts, strict=True):
            assert found[:, 0].tolist() == [float(word) for word in words]


def test_an_event_loop_can_embed_in_threads():
    model = tiny.model()

    async def embed_all():
        return await asyncio.gather(*(asyncio.to_thread(model.embed, sentences(seed)) for seed in range(8)))

    for seed, found in enumerate(asyncio.run(embed_all())):
        assert_equal(found, tiny.model().embed(sentences(seed)))


def test_a_pickled_model_gives_the_same_vectors():
    model = tiny.model()
    before = model.embed(sentences(0))
    assert_equal(pickle.loads(pickle.dumps(model)).embed(sentences(0)), before)


@needs_fork
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_process_forked_after_use_gives_the_same_vectors():
    model = tiny.model()
    expected = model.embed(sentences(0))
    with multiprocessing.get_context("fork").Pool(2) as pool:
        for found in pool.map_async(model.embed, [sentences(0)] * 4).get(timeout=60):
            assert_equal(found, expected)


START_METHODS = [pytest.param("fork", marks=needs_fork), pytest.param("spawn", marks=pytest.mark.long)]


@pytest.mark.parametrize("method", START_METHODS)
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_workers_of_a_data_loader_give_the_same_vectors(method):
    model, text = tiny.model(), sentences(0)
    expected = model.embed(text)
    loader = DataLoader(text, 3, num_workers=2, collate_fn=model.embed, multiprocessing_context=method, timeout=60)
    assert_equal([vectors for batch in loader for vectors in batch], expected)


@pytest.mark.long
def test_a_pool_of_spawned_processes_takes_the_model_with_it():
    model = tiny.model()
    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool:
        for seed, found in enumerate(pool.map(model.embed, map(sentences, range(3)))):
            assert_equal(found, model.embed(sentences(seed)))
