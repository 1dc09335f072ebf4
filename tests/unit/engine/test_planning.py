"""Devices and precisions are checked; a memory budget is kept or refused; every sentence is in exactly one batch."""

import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest
import tiny
import torch
from hypothesis import given
from hypothesis import strategies as st

from stelmo.config import CharInput, LstmConfig, ModelConfig
from stelmo.engine import planning
from stelmo.engine.planning import available
from stelmo.errors import ConfigError
from stelmo.settings import LoadSettings

FULL = ModelConfig(
    input=CharInput(embedding=16, filters=((1, 32), (7, 2016)), highways=2), lstm=LstmConfig(cells=4096, projection=512)
)
PARAMETERS = 93_600_000


def test_without_a_budget_the_settings_hold():
    assert planning.plan(FULL, PARAMETERS, LoadSettings(batch_tokens=77)).batch_tokens == 77


def test_a_larger_budget_never_plans_less_and_stops_at_what_is_fastest():
    plans = [
        planning.plan(FULL, PARAMETERS, LoadSettings(memory=megabytes)) for megabytes in (1200, 1500, 2000, 10_000)
    ]
    for smaller, larger in pairwise(plans):
        assert all(a <= b for a, b in zip(smaller, larger, strict=True))
    assert plans[0] < plans[-1] == planning.plan(FULL, PARAMETERS, LoadSettings())


def test_a_budget_smaller_than_the_model_is_refused_with_what_it_needs():
    with pytest.raises(ConfigError, match=r"memory: 500 MB; this model needs at least \d+ MB"):
        planning.plan(FULL, PARAMETERS, LoadSettings(memory=500))


def test_the_least_that_is_named_is_enough():
    with pytest.raises(ConfigError) as refusal:
        planning.plan(FULL, PARAMETERS, LoadSettings(memory=1))
    least = int(str(refusal.value).split()[-2])
    assert planning.plan(FULL, PARAMETERS, LoadSettings(memory=least + 1)).batch_tokens >= planning.LEAST_TOKENS


def test_a_small_budget_gives_the_same_vectors():
    sentences = [["the", "bank", "."] * 40, ["a"]] * 30
    small = tiny.model(memory=360)
    assert small.plan.batch_tokens < 4096 or small.plan.words < 100_000 or small.plan.block_tokens < 16_384
    for ours, right in zip(small.embed(sentences), tiny.model().embed(sentences), strict=True):
        assert abs(ours - right).max() < 1e-6


# VmHWM, not ru_maxrss: a new process inherits the latter from the one that started it.
EMBED = """
import sys
from stelmo.cli.main import main
sys.argv = ["stelmo", "embed", *sys.argv[1:]]
try:
    main()
finally:
    with open("/proc/self/status") as status:
        print(next(int(line.split()[1]) // 1024 for line in status if line.startswith("VmHWM")))
"""


@pytest.mark.long
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the peak is read from Linux's /proc")
@pytest.mark.parametrize(
    "text",
    ["one two three " * 17_000, "word\n" * 200_000],
    ids=["a sentence of 51,000 tokens", "200,000 sentences of one word"],
)
def test_a_process_keeps_to_its_budget(text, tmp_path):
    tiny.model().save(tmp_path / "model")
    (tmp_path / "text.tok").write_text(text)
    output = tmp_path / "v.npz"
    command = [sys.executable, "-c", EMBED, str(tmp_path / "text.tok"), "-o", str(output), "--memory", "700"]
    done = subprocess.run(
        [*command, "--model", str(tmp_path / "model"), "--threads", "1"], capture_output=True, text=True, check=True
    )
    assert output.exists()
    assert int(done.stdout.split()[-1]) < 700


# Batches

lengths_of_sentences = st.lists(st.integers(0, 40), max_size=60)
budgets = st.integers(1, 200)


def flat(groups):
    return [position for group in groups for position in group]


@given(lengths_of_sentences, budgets)
def test_by_length_places_every_sentence_exactly_once(lengths, budget):
    assert sorted(flat(planning.by_length(lengths, budget))) == list(range(len(lengths)))


@given(lengths_of_sentences, budgets)
def test_by_length_keeps_within_the_budget_unless_one_sentence_exceeds_it(lengths, budget):
    for group in planning.by_length(lengths, budget):
        assert len(group) == 1 or len(group) * max(lengths[position] for position in group) <= budget


@given(lengths_of_sentences, budgets)
def test_by_length_has_no_empty_batch(lengths, budget):
    assert all(planning.by_length(lengths, budget))


@given(lengths_of_sentences, budgets)
def test_by_length_begins_with_the_longest_so_that_memory_fails_at_once_or_never(lengths, budget):
    ordered = [lengths[position] for position in flat(planning.by_length(lengths, budget))]
    assert ordered == sorted(lengths, reverse=True)


@given(lengths_of_sentences, budgets)
def test_by_length_leaves_no_room_for_the_next_sentence(lengths, budget):
    groups = list(planning.by_length(lengths, budget))
    for group in groups[:-1]:
        assert (len(group) + 1) * max(1, lengths[group[0]]) > budget


@given(st.lists(st.integers(3, 3), max_size=20), budgets)
def test_sentences_of_one_length_stay_in_order(lengths, budget):
    assert flat(planning.by_length(lengths, budget)) == list(range(len(lengths)))


@given(st.integers(0, 60), st.integers(1, 20))
def test_in_order_keeps_the_order_in_full_batches_but_the_last(count, rows):
    groups = list(planning.in_order(count, rows))
    assert flat(groups) == list(range(count))
    assert all(len(group) == rows for group in groups[:-1])
    assert all(1 <= len(group) <= rows for group in groups[-1:])


@pytest.mark.parametrize("device", ["gpu", "cuda:99", "meta-physics"])
def test_a_device_that_is_not_there_is_refused(device):
    with pytest.raises(ConfigError, match=f"device: {device!r} is not available here .*; cpu always is"):
        tiny.model(device=device)


def test_the_devices_to_choose_from_are_named():
    with pytest.raises(ConfigError, match=r"'gpu' is not available here \(expected cpu, cuda, cuda:N or mps\)"):
        available("gpu")


def test_a_card_number_is_for_a_gpu_without_one():
    assert available("cpu", gpu=3) == torch.device("cpu")
    with pytest.raises(ConfigError, match="device: 'cuda:99'"):
        available("cuda:99", gpu=0)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"precision": "bfloat16"}, "precision: bfloat16 requires a GPU"),
        ({"precision": "int8", "device": "meta"}, "int8 runs only on the CPU, not on meta"),
    ],
)
def test_a_precision_that_does_not_fit_the_device_is_refused(settings, message):
    with pytest.raises(ConfigError, match=message):
        tiny.model(**settings)


token_lists = st.lists(st.lists(st.just("a"), max_size=9), max_size=30)


@given(token_lists, st.integers(1, 20), st.integers(1, 4))
def test_blocks_concatenate_to_the_sentences(found, tokens, multiple):
    blocks = list(planning.by_tokens(found, tokens, len, multiple))
    assert [sentence for block in blocks for sentence in block] == found
    assert all(len(block) % multiple == 0 for block in blocks[:-1])


@given(token_lists, st.integers(1, 20))
def test_a_block_is_full_but_has_no_more_tokens_than_allowed(found, tokens):
    blocks = list(planning.by_tokens(found, tokens, len))
    for block, following in pairwise(blocks):
        assert sum(map(len, block)) <= tokens or len(block) == 1
        assert sum(len(sentence) + 1 for sentence in block) + len(following[0]) > tokens


def test_a_full_block_does_not_wait_for_the_next_sentence():
    read = []
    stream = (read.append(number) or ["a", "b", "c"] for number in range(10))
    next(planning.by_tokens(stream, 7, len))
    assert read == [0, 1]
