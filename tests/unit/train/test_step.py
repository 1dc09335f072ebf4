"""The fast step against the reference step: losses, end state and every gradient."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import tiny
import torch

from stelmo.config import CharInput, CodePointConvolution, CodePointInput, LstmConfig, ModelConfig, WordInput, WordTable
from stelmo.model.bilm import Softmax, State
from stelmo.ops import reference as ops
from stelmo.text import chars
from stelmo.train.batches import Batch, Negatives
from stelmo.train.step import Dropout, StepBuffers, outputs, side_by_side, step

WORDS = ["<S>", "</S>", "the", "a", "bank", "über", "日本", "of", "unbelievably", "x" * 60, "y" * 45]
STEPS, ROWS, VOCABULARY = 5, 4, 30
TOLERANCE = {torch.float64: 1e-10, torch.float32: 2e-5}
# Of each row's words in their sentences: a sentence may begin anywhere in a window
PLACES = torch.tensor([[[0, 2, 9, 0], [1, 3, 10, 1], [0, 0, 11, 2], [1, 1, 12, 3], [2, 2, 13, 0]]] * 2)
PLACES[1] = 20 - PLACES[0]
NEGATIVES = Negatives(torch.tensor([0, 7, 3, 12, 29, 1, 18]), 15)
LSTM = LstmConfig(cells=10, projection=6, cell_clip=3.0, projection_clip=3.0)
CHARS = CharInput(embedding=4, filters=((1, 3), (2, 5), (3, 4)), highways=1)


def model(reads=CHARS, **lstm):
    return ModelConfig(input=reads, lstm=LSTM.model_copy(update=lstm))


def chars_of(**update):
    return model(CHARS.model_copy(update=update))


MODELS = {
    "usual": model(),
    "clips biting": model(cell_clip=0.3, projection_clip=0.2),
    "clips off": model(cell_clip=None, projection_clip=None),
    "no projection of the cells": model(cells=6),
    "tanh": chars_of(activation="tanh"),
    "no highway": chars_of(highways=0),
    "two highways": chars_of(highways=2),
    "no projection of the words": chars_of(filters=((1, 2), (2, 4))),
    "no skip": model(skip=False),
    "one layer": model(layers=1),
    "three layers": model(layers=3),
    "projection before the highways": chars_of(projection="after_convolution"),
    "layer norm": chars_of(layer_norm=1e-6),
    "transformer": ModelConfig(input=CHARS, encoder=tiny.TRANSFORMER),
    "gated cnn": ModelConfig(input=CHARS, encoder=tiny.GATED_CNN),
    "word ids": model(WordInput(words=len(WORDS))),
    "code points": model(
        CodePointInput(
            word_table=WordTable(rows=len(WORDS), width=3),
            convolution=CodePointConvolution(embedding=4, filters=((2, 5),), rows=chars.ROWS),
        )
    ),
}


def parts(config, dtype=torch.float64, seed=0):
    """A biLM, its softmax, a batch and a state, none of them zero."""
    torch.manual_seed(seed)
    bilm = tiny.bilm(config, dtype=dtype)
    for parameter in bilm.parameters():  # harsher weights amplify rounding until float32 says nothing
        parameter.mul_(0.6)
    bilm.requires_grad_()
    head = Softmax(VOCABULARY, config.projection).to(dtype)
    torch.nn.init.normal_(head.weight)
    torch.nn.init.normal_(head.bias)
    index_2TB = torch.randint(len(WORDS), (2, STEPS, ROWS))
    index_2TB[:, :3] = torch.arange(12).view(3, 4) % len(WORDS)  # every word is there
    batch = Batch(ids_of(config.input), index_2TB, torch.randint(VOCABULARY, (2, STEPS, ROWS)), PLACES)
    state = State(*(torch.randn_like(part) for part in bilm.zero_state(ROWS)))
    return bilm, head, batch, state


def ids_of(reads):
    numbers, letters = torch.arange(len(WORDS)), torch.from_numpy(chars.encode_words(WORDS))
    if isinstance(reads, WordInput):
        return numbers
    return torch.cat([numbers[:, None], letters], 1) if isinstance(reads, CodePointInput) else letters


def compared(config, negatives=NEGATIVES, dtype=torch.float64, **options):
    """Everything a step gives, by name."""
    bilm, head, batch, state = parts(config, dtype)
    found = step(bilm, head, batch, state, negatives, **options)
    weight_VP, bias_V = torch.zeros_like(head.weight), torch.zeros_like(head.bias)
    weight_VP[found.rows.rows_n], bias_V[found.rows.rows_n] = found.rows.weight_nP, found.rows.bias_n
    values = {"forward": torch.tensor(found.loss_forward), "backward": torch.tensor(found.loss_backward)}
    values |= {"h": found.state.h, "c": found.state.c, "softmax": weight_VP.detach(), "bias": bias_V.detach()}
    return values | {name: parameter.grad for name, parameter in bilm.named_parameters()}


def assert_equal_to_the_reference(config, dtype=torch.float64, **options):
    expected = compared(config, dtype=dtype, reference=True, **options)
    found = compared(config, dtype=dtype, **options)
    assert found.keys() == expected.keys()
    without_state = {"h", "c"} if not config.has_state else set()
    for name, right in expected.items():
        assert name in without_state or right.abs().max() > 0, name
        assert (found[name] - right).norm() <= TOLERANCE[dtype] * right.norm(), name


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("dropout", [0.0, 0.3])
@pytest.mark.parametrize("config", MODELS.values(), ids=MODELS)
def test_a_step_is_the_reference_s_in_every_gradient(config, dropout, dtype):
    assert_equal_to_the_reference(config, dtype, dropout=dropout, seed=(3, 1, 0), scale=20.0)


def test_a_step_with_the_full_softmax_is_the_reference_s():
    assert_equal_to_the_reference(model(), negatives=None)


def test_one_thread_computes_what_two_do():
    two = compared(model(), dropout=0.3)
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        one = compared(model(), dropout=0.3)
    finally:
        torch.set_num_threads(threads)
    for name, right in two.items():
        torch.testing.assert_close(one[name], right)


def test_lower_precision_reaches_the_encoder_alone():
    """Parameters keep theirs; in threads of their own there is no autocast, so one thread is used."""
    expected = compared(model(), dtype=torch.float32)
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            found = compared(model(), dtype=torch.float32)
    finally:
        torch.set_num_threads(threads)
    assert found["forward"] != expected["forward"]
    for name, right in expected.items():
        assert found[name].dtype == right.dtype
        assert (found[name] - right).norm() <= 0.1 * right.norm(), name


@pytest.fixture
def four_threads():
    threads = torch.get_num_threads()
    torch.set_num_threads(4)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def two_threads():
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    assert torch.get_num_threads() == 2
    torch.set_num_threads(threads)


@pytest.mark.usefixtures("two_threads")
def test_the_same_step_gives_the_same_bits():
    buffers = StepBuffers()
    config = ModelConfig(input=CHARS, lstm=LSTM.model_copy(update={"cells": 64}))
    first, *others = (compared(config, dtype=torch.float32, dropout=0.3, buffers=buffers) for _ in range(6))
    for other in others:
        assert all(torch.equal(other[name], right) for name, right in first.items())


def test_gradients_of_two_steps_add_up():
    bilm, head, batch, state = parts(model())
    step(bilm, head, batch, state, NEGATIVES)
    once = [parameter.grad.clone() for parameter in bilm.parameters()]
    step(bilm, head, batch, state, NEGATIVES)
    for parameter, before in zip(bilm.parameters(), once, strict=True):
        torch.testing.assert_close(parameter.grad, 2 * before)


def test_a_split_window_with_the_state_passed_on_ends_in_the_same_state():
    bilm, head, batch, state = parts(model())
    whole = step(bilm, head, batch, state, NEGATIVES)
    first, second = (Batch(batch.ids_U, *(part_2TB[:, t] for part_2TB in batch[1:])) for t in (slice(2), slice(2, 5)))
    middle = step(bilm, head, first, state, NEGATIVES)
    end = step(bilm, head, second, middle.state, NEGATIVES)
    torch.testing.assert_close(end.state, whole.state)
    assert (2 * middle.loss_forward + 3 * end.loss_forward) / 5 == pytest.approx(whole.loss_forward)


def test_masks_change_with_the_seed_and_differ_between_directions():
    one, same, other = (compared(model(), dropout=0.5, seed=seed) for seed in ((1, 2), (1, 2), (1, 3)))
    assert torch.equal(one["h"], same["h"])
    assert not torch.equal(one["h"][0], other["h"][0])
    assert not torch.equal(one["h"][1], other["h"][1])


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_a_mask_drops_its_share_and_keeps_the_mean(share):
    like_ND = torch.empty(200, 500, dtype=torch.float64)
    for mask_ND in Dropout(share, (7, 1)).masks(like_ND, 2, direction=1):
        dropped = mask_ND == 0
        spread = (share * (1 - share) / like_ND.numel()) ** 0.5
        assert abs(dropped.double().mean() - share) < 4 * spread
        assert mask_ND[~dropped].unique().tolist() == pytest.approx([1 / (1 - share)])
        rows_N = dropped.double().mean(1)  # no row or column has its own share
        assert abs(rows_N - share).max() < 5 * (share * (1 - share) / 500) ** 0.5


def test_a_frozen_bilm_gets_no_gradient_and_its_softmax_still_does():
    bilm, head, batch, state = parts(model())
    expected = step(bilm, head, batch, state, NEGATIVES)
    bilm, head, batch, state = parts(model())
    found = step(bilm.requires_grad_(False), head, batch, state, NEGATIVES)
    assert all(parameter.grad is None for parameter in bilm.parameters())
    torch.testing.assert_close(found.rows, expected.rows)


def test_a_frozen_encoder_leaves_the_lstms_gradients_as_they_are():
    expected = compared(model())
    bilm, head, batch, state = parts(model())
    bilm.encoder.requires_grad_(False)
    step(bilm, head, batch, state, NEGATIVES)
    for name, parameter in bilm.lstm_backward.named_parameters():
        torch.testing.assert_close(parameter.grad, expected[f"lstm_backward.{name}"])


def test_outputs_are_what_the_softmax_reads():
    bilm, head, batch, state = parts(model())
    h_2TBP, end = outputs(bilm, batch, state)
    found = step(bilm, head, batch, state, None)
    targets_2N = batch.targets_2TB.flatten(1)
    losses = [ops.full_softmax(h_2TBP[d].flatten(0, 1), targets_2N[d], head.weight, head.bias).item() for d in (0, 1)]
    assert losses == pytest.approx([found.loss_forward, found.loss_backward])
    torch.testing.assert_close(end, found.state)


def test_the_bilm_read_sentence_by_sentence_gives_the_same_layers():
    """The forward direction of a window is the biLM's own, which reads rows first."""
    bilm, _, batch, _ = parts(model())
    h_2TBP, _ = outputs(bilm, batch, bilm.zero_state(ROWS))
    x_BTP = bilm.encoder(batch.ids_U)[batch.index_2TB[0].T]
    layers_LBTD, _ = bilm(x_BTP, torch.full((ROWS,), STEPS), bilm.zero_state(ROWS))
    torch.testing.assert_close(h_2TBP[0], layers_LBTD[-1, :, :, : LSTM.projection].transpose(0, 1))


def test_two_calls_at_the_same_time_restore_the_number_of_threads(four_threads):
    begun, end = threading.Event(), threading.Event()

    def waiting(item):
        begun.set()
        end.wait()
        return item

    def late(item):
        end.set()  # the first call ends while this one is running
        first.result()
        return item

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(side_by_side, waiting, (0, 1), torch.device("cpu"))
        begun.wait()
        assert pool.submit(side_by_side, late, (0, 1), torch.device("cpu")).result() == [0, 1]
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(torch.get_num_threads).result() == torch.get_num_threads() == 4
