"""AllenNLP's classes: its published vectors with `stateful=True`, plain NumPy otherwise, its files and its names."""

import io
import json

import h5py
import numpy as np
import oracle
import pytest
import torch
from shared import GOLDEN

from stelmo.compat import allennlp_stateful
from stelmo.compat.allennlp import (
    DEFAULT_OPTIONS_FILE,
    DEFAULT_WEIGHT_FILE,
    ConfigurationError,
    Elmo,
    ElmoEmbedder,
    ElmoTokenEmbedder,
    ScalarMix,
    __all__,
    batch_to_ids,
    empty_embedding,
    main,
)
from stelmo.errors import ConfigError, DataError, MissingModelError, ModelError, StelmoError

OPTIONS = oracle.options()
ARRAYS = oracle.random_weights(OPTIONS)
SENTENCES = [["The", "bank", "."], ["naïve"], ["a", "long", "river", "/", "bank"]]
TOP = [-9e10, -9e10, 1.0]  # AllenNLP's way to choose a layer
close = {"rtol": 0, "atol": 1e-5}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    oracle.write(folder, OPTIONS, ARRAYS)
    return folder / "options.json", folder / "weights.hdf5"


@pytest.fixture(scope="module")
def expected():
    """All layers of all sentences from a state of zeros, (3, n, 8) each, computed by NumPy."""
    return [oracle.layers(OPTIONS, ARRAYS, tokens) for tokens in SENTENCES]


def golden():
    """Batches of sentences, and the top layer AllenNLP published for each."""
    rows = json.loads((GOLDEN / "sentences.json").read_text())
    batches = [[sentence.split() for sentence in batch] for batch in zip(*rows, strict=True)]
    vectors = []
    for row in range(3):
        with h5py.File(GOLDEN / f"lm_embeddings_{row}.hdf5") as file:
            vectors.append([np.concatenate(file[str(number)], -1) for number in range(10)])
    return zip(batches, zip(*vectors, strict=True), strict=True)


def golden_files():
    return GOLDEN / "options.json", GOLDEN / "lm_weights.hdf5"


# The published vectors


def test_a_stateful_embedder_gives_the_published_vectors():
    embedder = ElmoEmbedder(*golden_files(), stateful=True)
    for batch, expected in golden():
        for layers, top in zip(embedder.embed_batch(batch), expected, strict=True):
            np.testing.assert_allclose(layers[-1], top, rtol=1e-5, atol=1e-6)


def test_a_stateful_module_gives_the_published_vectors():
    elmo = Elmo(*golden_files(), 1, dropout=0.0, scalar_mix_parameters=TOP, stateful=True)
    for batch, expected in golden():
        output = elmo(batch_to_ids(batch))
        vectors = output["elmo_representations"][0]
        for row, mask, top in zip(vectors, output["mask"], expected, strict=True):
            np.testing.assert_allclose(row[mask.bool()].numpy(), top, rtol=1e-5, atol=1e-6)


def test_the_cache_of_words_gives_the_published_vectors():
    words = ["@@PADDING@@", *sorted({word for batch, _ in golden() for sentence in batch for word in sentence})]
    elmo = Elmo(*golden_files(), 1, dropout=0.0, vocab_to_cache=words, scalar_mix_parameters=TOP, stateful=True)
    for batch, expected in golden():
        ids = torch.zeros(3, max(map(len, batch)), dtype=torch.long)
        for row, sentence in zip(ids, batch, strict=True):
            row[: len(sentence)] = torch.tensor([words.index(word) for word in sentence])
        vectors = elmo(batch_to_ids(batch), ids)["elmo_representations"][0]
        for row, top in zip(vectors, expected, strict=True):
            np.testing.assert_allclose(row[: len(top)].numpy(), top, rtol=1e-5, atol=1e-6)


# The same names with the original's hidden state


def test_under_the_stateful_names_an_unchanged_script_gives_the_published_vectors():
    assert [name for name in __all__ if not hasattr(allennlp_stateful, name)] == []
    assert allennlp_stateful.__all__ == __all__
    embedder = allennlp_stateful.ElmoEmbedder(*golden_files())
    elmo = allennlp_stateful.Elmo(*golden_files(), 1, dropout=0.0, scalar_mix_parameters=TOP)
    bilm = allennlp_stateful._ElmoBiLm(*golden_files())
    tokens = allennlp_stateful.ElmoTokenEmbedder(*golden_files(), dropout=0.0, scalar_mix_parameters=TOP)
    for batch, expected in golden():
        ids = batch_to_ids(batch)
        found = [
            [layers[-1] for layers in embedder.embed_batch(batch)],
            elmo(ids)["elmo_representations"][0].numpy(),
            bilm(ids)["activations"][2][:, 1:-1].numpy(),
            tokens(ids).numpy(),
        ]
        for rows in found:
            for row, top in zip(rows, expected, strict=True):
                np.testing.assert_allclose(row[: len(top)], top, rtol=1e-5, atol=1e-6)


def test_under_the_stateful_names_an_empty_sentence_has_the_published_sizes(files):
    embedder = allennlp_stateful.ElmoEmbedder(*files)
    assert embedder.embed_sentence([]).shape == empty_embedding().shape == (3, 0, 1024)
    assert [layers.shape for layers in embedder.embed_batch([["a"], []])] == [(3, 1, 8), (3, 0, 1024)]


@pytest.mark.parametrize(("program", "carried"), [(main, False), (allennlp_stateful.main, True)])
def test_the_old_program_reads_its_arguments_and_replaces_its_file(files, tmp_path, monkeypatch, program, carried):
    (tmp_path / "in.txt").write_text("a river\na river\n")
    paths = ["--options-file", str(files[0]), "--weight-file", str(files[1])]
    flags = ["--top", "--batch-size", "1", "--file-friendly-logging", "--include-package", "mine"]
    both = [str(tmp_path / "in.txt"), str(tmp_path / "out.txt")]
    monkeypatch.setattr("sys.argv", ["run.py", "elmo", *both, *flags, *paths])
    program()
    program()
    (first,), (second,) = oracle.carry(OPTIONS, ARRAYS, [[["a", "river"]]] * 2)[0]
    with h5py.File(tmp_path / "out.txt") as file:
        np.testing.assert_allclose(file["0"][...], first[-1], **close)
        np.testing.assert_allclose(file["1"][...], (second if carried else first)[-1], **close)


def test_the_defaults_are_the_published_files_found_by_their_names(tmp_path, monkeypatch, expected):
    oracle.write(tmp_path, OPTIONS, ARRAYS)
    for name, url in (("options.json", DEFAULT_OPTIONS_FILE), ("weights.hdf5", DEFAULT_WEIGHT_FILE)):
        (tmp_path / name).rename(tmp_path / url.rpartition("/")[2])
    monkeypatch.chdir(tmp_path)
    np.testing.assert_allclose(ElmoEmbedder().embed_sentence(SENTENCES[0]), expected[0], **close)


# State


def test_by_default_a_sentence_starts_from_zeros_in_every_call(files, expected):
    embedder = ElmoEmbedder(*files)
    for _ in range(2):
        for found, layers in zip(embedder.embed_batch(SENTENCES), expected, strict=True):
            np.testing.assert_allclose(found, layers, **close)
    for tokens, layers in zip(SENTENCES, expected, strict=True):
        np.testing.assert_allclose(embedder.embed_sentence(tokens), layers, **close)
    assert embedder.state is None


def test_a_stateful_embedder_carries_its_rows_on_and_forgets_when_told(files):
    embedder = ElmoEmbedder(*files, stateful=True)
    batches = [SENTENCES[:1], SENTENCES, SENTENCES[:2], [["again"], [], ["x"]]]
    for _ in range(2):
        for batch, layers in zip(batches, oracle.carry(OPTIONS, ARRAYS, batches)[0], strict=True):
            for found, single in zip(embedder.embed_batch(batch), layers, strict=True):
                np.testing.assert_allclose(found, single, **close)
        assert embedder.state.rows == 3
        embedder.reset_states()


def test_a_stateful_module_carries_its_rows_on_and_forgets_when_told(files):
    elmo = Elmo(*files, 1, dropout=0.0, scalar_mix_parameters=TOP, stateful=True, requires_grad=True)
    batches = [SENTENCES, SENTENCES[:2], SENTENCES]
    for _ in range(2):
        for batch, layers in zip(batches, oracle.carry(OPTIONS, ARRAYS, batches)[0], strict=True):
            found = elmo(batch_to_ids(batch))["elmo_representations"][0]
            found.sum().backward()  # the memory holds no graph of the batch before
            for row, single in zip(found.detach().numpy(), layers, strict=True):
                np.testing.assert_allclose(row[: single.shape[1]], single[-1], **close)
        assert elmo.state.rows == 3
        elmo.reset_states()
        assert elmo.state is None


def test_states_are_read_and_forgotten_under_allennlps_name(files):
    elmo = Elmo(*files, 1, dropout=0.0, stateful=True)
    lstm, ids = elmo._elmo_lstm._elmo_lstm, batch_to_ids(SENTENCES)
    assert lstm._states is None
    first = elmo(ids)["elmo_representations"][0]
    cells, projection = OPTIONS["lstm"]["dim"], OPTIONS["lstm"]["projection_dim"]
    assert [part.shape for part in lstm._states] == [(2, 3, 2 * projection), (2, 3, 2 * cells)]
    torch.testing.assert_close(lstm._states[0][..., :projection], elmo.state.h[0])
    torch.testing.assert_close(lstm._states[1][..., cells:], elmo.state.c[1])
    lstm._states = None
    torch.testing.assert_close(elmo(ids)["elmo_representations"][0], first, rtol=0, atol=0)
    with pytest.raises(ConfigurationError, match="_states can only be set to None"):
        lstm._states = lstm._states


def test_an_empty_sentence_alone_leaves_the_memory_as_it_is(files):
    embedder = ElmoEmbedder(*files, stateful=True)
    embedder.embed_batch(SENTENCES)
    before = embedder.state
    assert embedder.embed_sentence([]).shape == (3, 0, 8)
    assert embedder.state is before


# The module


def test_each_output_is_its_mix_of_the_layers_and_zero_past_the_end(files, expected):
    elmo = Elmo(*files, 2, dropout=0.0)
    with torch.no_grad():
        elmo.scalar_mix_1.gamma.fill_(1.5)
        for parameter, value in zip(elmo.scalar_mix_1.scalar_parameters, (0.3, -1.0, 0.7), strict=True):
            parameter.fill_(value)
    output = elmo(batch_to_ids(SENTENCES))
    mixes = [([0.0, 0.0, 0.0], 1.0), ([0.3, -1.0, 0.7], 1.5)]
    for found, (logits, gamma) in zip(output["elmo_representations"], mixes, strict=True):
        assert found.shape == (3, 5, 8)
        for row, layers in zip(found.detach().numpy(), expected, strict=True):
            length = layers.shape[1]
            np.testing.assert_allclose(row[:length], oracle.mix(layers, np.array(logits), gamma), **close)
            assert not row[length:].any()
    assert output["mask"].tolist() == [[1] * 3 + [0] * 2, [1] + [0] * 4, [1] * 5]
    assert elmo.get_output_dim() == 8


def test_layer_norm_counts_the_markers_as_allennlp_does(files):
    elmo = Elmo(*files, 1, do_layer_norm=True, dropout=0.0)
    whole = [oracle.run(OPTIONS, ARRAYS, tokens)[0] for tokens in SENTENCES]
    found = elmo(batch_to_ids(SENTENCES))["elmo_representations"][0].detach().numpy()
    for row, layers in zip(found, oracle.layer_norm_allennlp(whole), strict=True):
        np.testing.assert_allclose(row[: layers.shape[1] - 2], layers[:, 1:-1].mean(0), rtol=0, atol=1e-4)


def test_the_markers_can_be_kept(files):
    output = Elmo(*files, 1, dropout=0.0, keep_sentence_boundaries=True)(batch_to_ids(SENTENCES))
    assert output["mask"].sum(1).tolist() == [5, 3, 7]
    for row, tokens in zip(output["elmo_representations"][0].detach().numpy(), SENTENCES, strict=True):
        layers, _ = oracle.run(OPTIONS, ARRAYS, tokens)
        np.testing.assert_allclose(row[: len(tokens) + 2], layers.mean(0), **close)


def test_padding_beyond_the_longest_sentence_and_axes_before_the_batch_are_kept(files, expected):
    elmo = Elmo(*files, 1, dropout=0.0)
    ids = torch.nn.functional.pad(batch_to_ids(SENTENCES), (0, 0, 0, 2))
    nested = torch.stack([ids, ids.flip(0)])
    output = elmo(nested)
    assert output["mask"].shape == (2, 3, 7)
    found = output["elmo_representations"][0].detach().numpy()
    assert found.shape == (2, 3, 7, 8)
    np.testing.assert_allclose(found[1, 2, :3], expected[0].mean(0), **close)
    assert not found[:, :, 5:].any()


def test_a_batch_of_nothing_but_an_empty_sentence_is_fine(files):
    output = Elmo(*files, 1)(batch_to_ids([[]]))
    assert output["elmo_representations"][0].shape == (1, 0, 8)
    assert output["mask"].shape == (1, 0)


def test_only_the_mix_learns_unless_gradients_are_asked_for(files):
    ids = batch_to_ids(SENTENCES)
    frozen, trained, fixed = (
        Elmo(*files, 1),
        Elmo(*files, 1, requires_grad=True),
        Elmo(*files, 1, scalar_mix_parameters=TOP),
    )
    names = [name for name, parameter in frozen.named_parameters() if parameter.requires_grad]
    assert names == ["scalar_mix_0.gamma", *(f"scalar_mix_0.scalar_parameters.{number}" for number in range(3))]
    frozen(ids)["elmo_representations"][0].sum().backward()
    assert all(frozen.get_parameter(name).grad.abs() > 0 for name in names)
    trained(ids)["elmo_representations"][0].square().sum().backward()
    assert all(parameter.grad.abs().sum() > 0 for parameter in trained.parameters())
    assert not any(parameter.requires_grad for parameter in fixed.parameters())


def test_dropout_works_in_training_alone(files):
    elmo = Elmo(*files, 1, dropout=0.5)
    ids = batch_to_ids(SENTENCES)
    assert (elmo.train()(ids)["elmo_representations"][0][2] == 0).any()
    assert not (elmo.eval()(ids)["elmo_representations"][0][2] == 0).any()


def test_mixes_of_an_old_state_dict_fit(files):
    old = {"scalar_mix_0.gamma": torch.tensor([2.5])}
    old |= {f"scalar_mix_0.scalar_parameters.{number}": torch.tensor([float(number)]) for number in range(3)}
    elmo = Elmo(*files, 1)
    assert set(old) < set(elmo.state_dict())
    assert not elmo.load_state_dict(old, strict=False).unexpected_keys
    assert [parameter.item() for parameter in elmo.scalar_mix_0.scalar_parameters] == [0.0, 1.0, 2.0]
    assert elmo.scalar_mix_0.gamma.item() == 2.5


def test_a_state_dict_of_ours_gives_the_same_module_back(files):
    first, second = (Elmo(*files, 1, dropout=0.0) for _ in range(2))
    torch.nn.init.constant_(first.scalar_mix_0.gamma, 3.0)
    second.load_state_dict(first.state_dict())
    ids = batch_to_ids(SENTENCES)
    assert torch.equal(first(ids)["elmo_representations"][0], second(ids)["elmo_representations"][0])


class Doubling(torch.nn.Module):
    """A biLM of one's own: its one layer is the first two character ids of each token."""

    num_layers = 2

    def get_output_dim(self):
        return 2

    def forward(self, inputs, word_inputs=None):
        padded = torch.nn.functional.pad(inputs[:, :, :2].float(), (0, 0, 1, 1), value=9.0)
        return {"activations": [padded, 2 * padded], "mask": torch.ones(padded.shape[:2], dtype=torch.long)}


def test_a_module_of_ones_own_takes_the_place_of_the_files():
    elmo = Elmo(None, None, 1, dropout=0.0, module=Doubling())
    ids = batch_to_ids([["a", "b"]])
    found = elmo(ids)["elmo_representations"][0]
    torch.testing.assert_close(found, 1.5 * ids[:, :, :2].float())
    assert elmo.get_output_dim() == 2


# The cache of words


def test_cached_words_give_what_their_characters_give(files, expected):
    words = ["", "The", "bank", ".", "naïve", "a", "long", "river", "/"]
    elmo = Elmo(*files, 1, dropout=0.0, vocab_to_cache=words)
    ids = torch.tensor([[1, 2, 3, 0, 0], [4, 0, 0, 0, 0], [5, 6, 7, 8, 2]])
    for output in (elmo(batch_to_ids(SENTENCES), ids), elmo(ids)):
        assert output["mask"].sum(1).tolist() == [3, 1, 5]
        for row, layers in zip(output["elmo_representations"][0].detach().numpy(), expected, strict=True):
            np.testing.assert_allclose(row[: layers.shape[1]], layers.mean(0), **close)
    nested = elmo(batch_to_ids(SENTENCES)[None], ids[None])
    assert nested["elmo_representations"][0].shape == (1, 3, 5, 8)


@pytest.mark.parametrize("stateful", [False, True])
@pytest.mark.parametrize("before", [(), (1,), (1, 1)], ids=str)
def test_the_characters_are_not_looked_at_if_the_cache_has_every_word(files, before, stateful):
    words = ["", "The", "bank", ".", "naïve", "a", "long", "river", "/"]
    ids = torch.tensor([[1, 2, 3, 0, 0], [4, 0, 0, 0, 0], [5, 6, 7, 8, 2]]).reshape(*before, 3, 5)
    expected = Elmo(*files, 1, dropout=0.0)(batch_to_ids(SENTENCES).reshape(*before, 3, 5, 50))
    for inputs in (ids, ids.clone(), torch.zeros(ids.shape), torch.zeros(1)):
        elmo = Elmo(*files, 1, dropout=0.0, vocab_to_cache=words, stateful=stateful)
        embedder = ElmoTokenEmbedder(*files, dropout=0.0, vocab_to_cache=words, stateful=stateful)
        output = elmo(inputs, ids)
        assert torch.equal(output["mask"], expected["mask"])
        for found in (output["elmo_representations"][0], embedder(inputs, ids)):
            torch.testing.assert_close(found, expected["elmo_representations"][0], rtol=0, atol=1e-5)


def test_a_word_outside_the_cache_needs_its_characters(files):
    elmo = Elmo(*files, 1, dropout=0.0, vocab_to_cache=["", "The"])
    ids = torch.tensor([[1, 7, 8]])
    for inputs in (ids, torch.zeros(ids.shape)):
        with pytest.raises(DataError, match="word id 8; vocab_to_cache has 2 words; pass the character ids, too"):
            elmo(inputs, ids)


def test_a_word_outside_the_cache_is_read_by_its_characters(files, expected):
    elmo = Elmo(*files, 1, dropout=0.0, vocab_to_cache=["", "The"])
    ids = torch.tensor([[1, 7, 8]])
    found = elmo(batch_to_ids(SENTENCES[:1]), ids)["elmo_representations"][0][0].detach().numpy()
    np.testing.assert_allclose(found, expected[0].mean(0), **close)
    with pytest.raises(DataError, match="word id 8; vocab_to_cache has 2 words"):
        elmo(ids)


def test_word_ids_without_a_cache_are_not_used_and_that_is_said(files, expected):
    elmo = Elmo(*files, 1, dropout=0.0)
    with pytest.warns(UserWarning, match="without vocab_to_cache"):
        output = elmo(batch_to_ids(SENTENCES[:1]), torch.tensor([[1, 2, 3]]))
    np.testing.assert_allclose(output["elmo_representations"][0][0].detach().numpy(), expected[0].mean(0), **close)


# Ids, mix, token embedder


def test_ids_are_those_of_the_published_models():
    ids = batch_to_ids([["th", "<S>"], ["Ā"]])
    assert ids.shape == (2, 2, 50)
    assert ids.dtype == torch.long
    assert ids[0, 0, :5].tolist() == [259, 117, 105, 260, 261]
    assert ids[0, 1, :4].tolist() == [259, 257, 260, 261]
    assert ids[1, 0, :5].tolist() == [259, 197, 129, 260, 261]
    assert not ids[1, 1].any()


def test_the_mix_is_gamma_times_the_weighted_sum():
    random = np.random.default_rng(0)
    tensors = random.normal(size=(3, 2, 4, 5))
    mix = ScalarMix(3, initial_scalar_parameters=[1, 0.5, -2], trainable=False)
    found = mix([torch.tensor(tensor) for tensor in tensors])
    np.testing.assert_allclose(found.numpy(), oracle.mix(tensors, np.array([1, 0.5, -2]), 1.0), atol=1e-6)
    assert not any(parameter.requires_grad for parameter in mix.parameters())
    flat = mix([torch.tensor(tensor[0]) for tensor in tensors])
    np.testing.assert_allclose(flat.numpy(), found[0].numpy())


def test_the_mix_normalises_over_the_real_tokens():
    random = np.random.default_rng(1)
    tensors = random.normal(size=(2, 3, 4, 5)).astype(np.float32)
    mask = np.array([[1, 1, 1, 0], [1, 0, 0, 0], [1, 1, 1, 1]], bool)
    normal = [(tensor - tensor[mask].mean()) / np.sqrt(tensor[mask].var() + 1e-13) for tensor in tensors]
    found = ScalarMix(2, do_layer_norm=True)(list(torch.tensor(tensors)), torch.tensor(mask))
    np.testing.assert_allclose(found.detach().numpy(), np.mean(normal, 0), rtol=0, atol=1e-5)


def test_a_token_embedder_is_one_representation_projected_if_asked(files, expected):
    plain = ElmoTokenEmbedder(*files, dropout=0.0)
    np.testing.assert_allclose(plain(batch_to_ids(SENTENCES))[2].detach().numpy(), expected[2].mean(0), **close)
    assert plain.get_output_dim() == 8
    projected = ElmoTokenEmbedder(*files, dropout=0.0, projection_dim=3)
    assert projected.get_output_dim() == 3
    weight, bias = (parameter.detach().numpy() for parameter in projected._projection.parameters())
    for name in ("inputs", "elmo_tokens"):  # of AllenNLP 0.9 and 1.0
        found = projected(**{name: batch_to_ids(SENTENCES)})[2].detach().numpy()
        np.testing.assert_allclose(found, expected[2].mean(0) @ weight.T + bias, **close)
    assert {"_elmo.scalar_mix_0.gamma", "_projection.weight"} < set(projected.state_dict())


# The embedder's arrays and files


def test_sentences_come_one_by_one_whatever_the_batches(files, expected):
    found = ElmoEmbedder(*files).embed_sentences(iter(SENTENCES), batch_size=2)
    assert iter(found) is found
    for single, layers in zip(found, expected, strict=True):
        np.testing.assert_allclose(single, layers, **close)


def test_a_batch_of_tensors_is_padded_and_masked(files, expected):
    layers, mask = ElmoEmbedder(*files).batch_to_embeddings(SENTENCES)
    assert layers.shape == (3, 3, 5, 8)
    assert mask.tolist() == [[1, 1, 1, 0, 0], [1, 0, 0, 0, 0], [1, 1, 1, 1, 1]]
    for row, single in zip(layers.numpy(), expected, strict=True):
        np.testing.assert_allclose(row[:, : single.shape[1]], single, **close)
        assert not row[:, single.shape[1] :].any()


TEXT = "The bank .\n  naïve \na long  river / bank\n"


@pytest.mark.parametrize(
    ("output_format", "of"),
    [("all", lambda layers: layers), ("top", lambda layers: layers[-1]), ("average", lambda layers: layers.mean(0))],
)
def test_a_file_of_sentences_becomes_a_file_of_vectors(files, expected, tmp_path, output_format, of):
    source = io.StringIO(TEXT)
    ElmoEmbedder(*files).embed_file(source, tmp_path / "out.hdf5", output_format, batch_size=2)
    assert source.closed
    with h5py.File(tmp_path / "out.hdf5") as file:
        assert set(file) == {"0", "1", "2", "sentence_to_index"}
        for number, layers in enumerate(expected):
            assert file[str(number)].dtype == np.float32
            np.testing.assert_allclose(file[str(number)][...], of(layers), **close)
        index = file["sentence_to_index"]
        assert index.shape == (1,)
        assert json.loads(index[0]) == {"The bank .": "0", "naïve": "1", "a long  river / bank": "2"}


def test_sentences_can_be_forgotten_and_an_older_file_is_replaced(files, tmp_path):
    embedder, output = ElmoEmbedder(*files), tmp_path / "out.hdf5"
    embedder.embed_file(io.StringIO(TEXT), output)
    embedder.embed_file(io.StringIO("a\na\n"), str(output), forget_sentences=True)
    with h5py.File(output) as file:
        assert set(file) == {"0", "1"}


def test_of_equal_sentences_the_index_names_the_last(files, tmp_path):
    ElmoEmbedder(*files).embed_file(io.StringIO("a\nb\na\n"), tmp_path / "out.hdf5")
    with h5py.File(tmp_path / "out.hdf5") as file:
        assert json.loads(file["sentence_to_index"][0]) == {"a": "2", "b": "1"}


def test_sentences_can_be_the_keys(files, expected, tmp_path):
    ElmoEmbedder(*files).embed_file(io.StringIO("The bank .\nnaïve\n"), tmp_path / "out.hdf5", use_sentence_keys=True)
    with h5py.File(tmp_path / "out.hdf5") as file:
        assert set(file) == {"The bank .", "naïve"}
        np.testing.assert_allclose(file["The bank ."][...], expected[0], **close)


@pytest.mark.parametrize(
    ("text", "keys", "message"),
    [
        ("a\n\nb\n \n", False, r"blank lines at \[1, 3\] \(from 0\), 2 in all"),
        ("1\n1/2\n", True, r"line 1 \(from 0\): its key would lie inside that of line 0"),
        (".\n", True, "'.' cannot be a key of HDF5"),
        ("a\nb\na\n", True, "lines 0 and 2 .* are the same sentence"),
    ],
)
def test_lines_that_cannot_be_stored_are_refused_before_any_work(files, tmp_path, text, keys, message):
    with pytest.raises(ConfigurationError, match=message):
        ElmoEmbedder(*files).embed_file(io.StringIO(text), tmp_path / "out.hdf5", use_sentence_keys=keys)
    assert not list(tmp_path.iterdir())


# Refusals


def test_what_cannot_be_done_is_refused_in_one_sentence(files):
    options, weights = files
    elmo = Elmo(*files, 1)
    cases = [
        (lambda: ElmoEmbedder(None, None), ModelError, "weight_file is None"),
        (lambda: ElmoEmbedder(), MissingModelError, "https://allennlp.s3.amazonaws.com/.*: nothing is downloaded"),
        (lambda: ElmoTokenEmbedder("https://x/options.json", weights), MissingModelError, "nothing is downloaded"),
        (lambda: ElmoEmbedder(options, weights.with_name("no.hdf5")), MissingModelError, "no such file"),
        (lambda: ElmoEmbedder(options.with_name("no.json"), weights), MissingModelError, "no.json: no such file"),
        (lambda: Elmo.from_params({"options_file": options}), ConfigError, "Elmo: missing a required argument"),
        (lambda: ElmoTokenEmbedder.from_params(None, {"colour": 1}), ConfigError, "unexpected keyword argument"),
        (lambda: ElmoEmbedder(options, weights, cuda_device=99), ConfigError, "not available"),
        (lambda: Elmo(*files, 0), ConfigError, "0 representations"),
        (lambda: Elmo(*files, 1, dropout=2.0), ConfigError, "dropout 2.0"),
        (lambda: Elmo(*files, 1, module=Doubling()), ConfigError, "replaces options_file"),
        (lambda: Elmo(*files, 1, stateful=True, state="warm"), ConfigError, "starts from zeros"),
        (lambda: Elmo(*files, 1, scalar_mix_parameters=[0.0]), ConfigError, "1 initial_scalar_parameters for 3"),
        (lambda: ScalarMix(2)([torch.ones(1, 1)]), ConfigError, "1 tensors; it was made for 2"),
        (lambda: ScalarMix(1, do_layer_norm=True)([torch.ones(1, 1)]), ConfigError, "requires the mask"),
        (lambda: elmo(torch.zeros(1, 2, 7, dtype=torch.long)), DataError, r"shape \(1, 2, 7\)"),
        (lambda: elmo(torch.zeros(1, 2, dtype=torch.long)), DataError, r"shape \(1, 2\)"),
        (lambda: elmo(torch.full((1, 2, 50), 300)), DataError, "character ids are 0 … 261"),
        (lambda: batch_to_ids("a b"), DataError, "is a string"),
        (lambda: ElmoEmbedder(*files).batch_to_embeddings([]), DataError, "no sentences"),
        (lambda: list(ElmoEmbedder(*files).embed_sentences([["a"]], 0)), ConfigError, "batch_size 0"),
        (lambda: ElmoEmbedder(*files).embed_file(io.StringIO("a"), "x", "mean"), ConfigError, "all, top, average"),
    ]
    for call, kind, message in cases:
        with pytest.raises(StelmoError, match=message) as refusal:
            call()
        assert refusal.type is kind
        assert "\n" not in str(refusal.value)


def test_a_model_of_word_ids_is_refused(tmp_path):
    options = oracle.options(filters=None)
    words = ["<S>", "</S>", "<UNK>", "a"]
    oracle.write(tmp_path, options, oracle.random_weights(options, words=len(words)), words)
    with pytest.raises(ModelError, match="does not read bytes"):
        Elmo(tmp_path / "options.json", tmp_path / "weights.hdf5", 1)
