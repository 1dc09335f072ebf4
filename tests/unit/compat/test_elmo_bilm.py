"""AllenNLP's biLM as its own module: training it, old state dictionaries, its parts and its state; its indexer."""

import copy
import io
import json
import pickle
from types import SimpleNamespace

import numpy as np
import oracle
import pytest
import torch
from allennlp_state import state_of

import stelmo
from stelmo.compat.allennlp import (
    ConfigurationError,
    Elmo,
    ELMoCharacterMapper,
    ElmoEmbedder,
    ELMoTokenCharactersIndexer,
    ElmoTokenEmbedder,
    _ElmoBiLm,
    _ElmoCharacterEncoder,
    batch_to_ids,
    remove_sentence_boundaries,
)

OPTIONS = oracle.options(highways=2)
ARRAYS = oracle.random_weights(OPTIONS)
OTHER = oracle.random_weights(OPTIONS, seed=5)
SENTENCES = [["The", "bank", "."], ["a", "long", "river", "bank"]]
IDS = batch_to_ids(SENTENCES)
close = {"rtol": 0, "atol": 1e-5}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    oracle.write(folder, OPTIONS, ARRAYS)
    return folder / "options.json", folder / "weights.hdf5"


# Training


@pytest.mark.parametrize(
    "unfreeze",
    [lambda elmo: elmo._elmo_lstm.requires_grad_(True), lambda elmo: elmo.requires_grad_(True)],
    ids=["the biLM", "everything"],
)
def test_a_bilm_that_is_unfrozen_later_gets_gradients(files, unfreeze):
    elmo = Elmo(*files, 1, dropout=0.0)
    unfreeze(elmo)
    elmo(IDS)["elmo_representations"][0].square().sum().backward()
    assert all(parameter.grad is not None for parameter in elmo._elmo_lstm.parameters())


def test_a_bilm_that_is_frozen_later_gets_none(files):
    elmo = Elmo(*files, 1, dropout=0.0, requires_grad=True)
    elmo._elmo_lstm.requires_grad_(False)
    elmo(IDS)["elmo_representations"][0].sum().backward()
    assert all(parameter.grad is None for parameter in elmo._elmo_lstm.parameters())


@pytest.mark.parametrize("requires_grad", [True, False])
def test_a_token_embedder_trains_the_bilm_where_asked(files, requires_grad):
    embedder = ElmoTokenEmbedder(*files, requires_grad=requires_grad)
    embedder(IDS).sum().backward()
    gradients = [found.grad for name, found in embedder.named_parameters() if "_elmo_lstm" in name]
    assert {gradient is not None for gradient in gradients} == {requires_grad}


def test_while_the_bilm_is_trained_the_cache_is_not_used(files):
    with pytest.warns(UserWarning, match="vocab_to_cache is not used"):
        elmo = Elmo(*files, 1, requires_grad=True, vocab_to_cache=["", "The", "bank", "."])
    elmo(IDS[:1, :3], torch.tensor([[1, 2, 3]]))["elmo_representations"][0].square().sum().backward()
    assert elmo._elmo_lstm.bilm.encoder.table.grad.abs().sum() > 0


# The parts


def test_the_bilm_gives_activations_and_an_integer_mask_with_both_markers(files):
    output = _ElmoBiLm(*files)(IDS)
    assert output["mask"].tolist() == [[1, 1, 1, 1, 1, 0], [1] * 6]
    assert output["mask"].dtype == torch.long
    top, mask = remove_sentence_boundaries(output["activations"][2], output["mask"])
    assert mask.tolist() == [[1, 1, 1, 0], [1, 1, 1, 1]]
    for row, tokens in zip(top.numpy(), SENTENCES, strict=True):
        np.testing.assert_allclose(row[: len(tokens)], oracle.layers(OPTIONS, ARRAYS, tokens)[2], **close)
        assert not row[len(tokens) :].any()


def test_a_bilm_is_a_module_for_elmo(files):
    elmo = Elmo(None, None, 2, dropout=0.0, module=_ElmoBiLm(*files))
    expected = Elmo(*files, 1, dropout=0.0)(IDS)["elmo_representations"][0]
    torch.testing.assert_close(elmo(IDS)["elmo_representations"][1], expected)
    assert len(elmo._scalar_mixes) == 2


def test_the_character_encoder_is_layer_0(files):
    encoder = _ElmoCharacterEncoder(*files)
    output = encoder(IDS)
    vectors, _ = remove_sentence_boundaries(output["token_embedding"], output["mask"])
    assert encoder.get_output_dim() == vectors.shape[-1] == 4
    for row, tokens in zip(vectors.numpy(), SENTENCES, strict=True):
        np.testing.assert_allclose(row[: len(tokens)], oracle.layers(OPTIONS, ARRAYS, tokens)[0, :, :4], **close)
    inner = _ElmoBiLm(*files)._token_embedder(IDS)
    torch.testing.assert_close(inner["token_embedding"], output["token_embedding"])
    assert {name.split(".")[0] for name in encoder.state_dict()} == {"encoder"}


def test_the_state_is_where_scripts_look_for_it(files):
    embedder, batches = ElmoEmbedder(*files), [SENTENCES, SENTENCES]
    assert embedder.elmo_bilm.get_output_dim() == 8
    embedder.elmo_bilm._elmo_lstm.stateful = True
    for batch, layers in zip(batches, oracle.carry(OPTIONS, ARRAYS, batches)[0], strict=True):
        np.testing.assert_allclose(embedder.embed_batch(batch)[0], layers[0], **close)
    embedder.elmo_bilm._elmo_lstm.reset_states()
    assert embedder.state is None
    elmo = Elmo(*files, 1, dropout=0.0, stateful=True)
    first = elmo(IDS)["elmo_representations"][0]
    elmo._elmo_lstm._elmo_lstm.reset_states()
    torch.testing.assert_close(elmo(IDS)["elmo_representations"][0], first)


def test_settings_of_a_configuration_make_the_modules(files):
    paths = {"options_file": str(files[0]), "weight_file": str(files[1])}
    elmo = Elmo.from_params({**paths, "num_output_representations": 2, "dropout": 0.0})
    assert len(elmo(IDS)["elmo_representations"]) == 2

    class Words:
        def get_token_to_index_vocabulary(self, namespace):
            return {"": 0, "The": 1, namespace: 2}

    params = {"type": "elmo_token_embedder", **paths, "namespace_to_cache": "tokens", "projection_dim": 3}
    embedder = ElmoTokenEmbedder.from_params(Words(), params)
    assert embedder.get_output_dim() == 3
    assert len(embedder._elmo._elmo_lstm.cache) == 5


class Params(dict):
    """AllenNLP's settings, as far as this package looks; it archives the files it is told of."""

    def __init__(self, values):
        super().__init__(values)
        self.archived = []

    def add_file_to_archive(self, name):
        self.archived.append(self[name])


def test_settings_of_allennlp_are_used_up_and_their_files_archived(files):
    params = Params({"options_file": files[0], "weight_file": files[1], "projection_dim": 20})
    assert ElmoTokenEmbedder.from_params(vocab=None, params=params).get_output_dim() == 20
    assert params.archived == list(files)
    assert not params


@pytest.mark.parametrize("refused", [ConfigurationError, ValueError])
def test_what_scripts_catch_as_a_configuration_error_is_raised(files, refused):
    with pytest.raises(refused):
        Elmo(*files, 1, scalar_mix_parameters=[0.0])
    with pytest.raises(refused):
        ElmoEmbedder(*files).embed_file(io.StringIO("a\n\nb\n"), "x")


def test_what_scripts_catch_as_a_missing_file_is_raised(files, tmp_path):
    for missing in ((files[0], tmp_path / "no.hdf5"), (tmp_path / "no.json", files[1])):
        with pytest.raises(FileNotFoundError):
            ElmoEmbedder(*missing)


def test_words_can_be_cached_later(files):
    bilm = _ElmoBiLm(*files)
    bilm.create_cached_cnn_embeddings(["", *SENTENCES[0]])
    by_words = bilm(IDS[:1, :3], torch.tensor([[1, 2, 3]]))["activations"]
    for found, layer in zip(by_words, bilm(IDS[:1, :3])["activations"], strict=True):
        torch.testing.assert_close(found, layer, rtol=0, atol=1e-5)


# Old state dictionaries


@pytest.mark.parametrize("trained", [True, False])
def test_an_old_state_dict_loads_strictly_and_brings_its_bilm(files, trained):
    """As a fine-tuned AllenNLP model saves it: other weights than those of the files."""
    elmo = Elmo(*files, 1, dropout=0.0, requires_grad=trained, vocab_to_cache=None)
    elmo.load_state_dict(state_of(OTHER, dtype=torch.float32, mixes=1))
    found = elmo(IDS)["elmo_representations"][0].detach().numpy()
    for row, tokens in zip(found, SENTENCES, strict=True):
        layers = oracle.layers(OPTIONS, OTHER, tokens)
        np.testing.assert_allclose(row[: len(tokens)], oracle.mix(layers, np.array([0.0, 0.5, 1.0]), 2.0), atol=1e-4)
    assert {parameter.requires_grad for parameter in elmo._elmo_lstm.parameters()} == {trained}


def test_a_cache_of_words_follows_the_loaded_weights(files):
    words = ["", *SENTENCES[0]]
    elmo = Elmo(*files, 1, dropout=0.0, vocab_to_cache=words)
    old = state_of(OTHER, dtype=torch.float32, mixes=1)
    elmo.load_state_dict({**old, "_elmo_lstm._word_embedding.weight": torch.ones(4, 4)})
    by_words = elmo(IDS[:1, :3], torch.tensor([[1, 2, 3]]))["elmo_representations"][0]
    torch.testing.assert_close(by_words, elmo(IDS[:1, :3])["elmo_representations"][0], rtol=0, atol=1e-5)


def test_an_elmo_inside_a_network_takes_its_part_of_an_old_state_dict(files):
    network = torch.nn.ModuleDict({"embedder": ElmoTokenEmbedder(*files, dropout=0.0)})
    network.load_state_dict(state_of(OTHER, prefix="embedder._elmo.", dtype=torch.float32, mixes=1))
    found = network["embedder"]._elmo._elmo_lstm(IDS)["activations"][2][0, 1:4]
    np.testing.assert_allclose(found.numpy(), oracle.layers(OPTIONS, OTHER, SENTENCES[0])[2], atol=1e-4)


def test_a_checkpoint_that_wraps_a_state_dict_is_loaded(tmp_path):
    wrapped = {"state_dict": state_of(OTHER, dtype=torch.float32), "epoch": 3, "lr": 0.1}
    torch.save(wrapped, tmp_path / "model.th")
    (tmp_path / "options.json").write_text(json.dumps(OPTIONS))
    model = stelmo.load(tmp_path / "model.th", options=tmp_path / "options.json")
    np.testing.assert_allclose(model.layers(SENTENCES)[0], oracle.layers(OPTIONS, OTHER, SENTENCES[0]), atol=1e-4)


# Copies


def test_a_pickle_holds_the_weights_once_and_no_caches(files):
    embedder, model = ElmoEmbedder(*files), stelmo.load(files[1])
    weights = model.bilm.lstm_forward[0].kernel.detach().numpy().tobytes()
    before = [len(pickle.dumps(found)) for found in (embedder, model)]
    embedder.embed_batch([[f"word{number}" for number in range(200)]])
    model.embed([[f"word{number}" for number in range(200)]])
    assert [len(pickle.dumps(found)) for found in (embedder, model)] == before
    assert [pickle.dumps(found).count(weights) for found in (embedder, model)] == [1, 1]


@pytest.mark.parametrize("again", [lambda found: pickle.loads(pickle.dumps(found)), copy.deepcopy])
def test_after_first_use_everything_can_be_copied(files, again):
    embedder, model = ElmoEmbedder(*files), stelmo.load(files[1])
    expected = embedder.embed_sentence(SENTENCES[0])
    model.embed(SENTENCES)
    np.testing.assert_array_equal(again(embedder).embed_sentence(SENTENCES[0]), expected)
    np.testing.assert_array_equal(again(model).layers(SENTENCES[:1])[0], expected)
    elmo = Elmo(*files, 1, dropout=0.0)
    torch.testing.assert_close(
        again(elmo)(IDS)["elmo_representations"][0], elmo(IDS)["elmo_representations"][0], rtol=0, atol=0
    )


# Character ids


REST = [261] * 50


def row(*ids):
    """259, the ids, 260, and padding up to 50."""
    return [259, *ids, 260, *REST][:50]


@pytest.mark.parametrize(
    ("word", "ids"),
    [("<S>", [257]), ("</S>", [258]), ("Āt", [197, 129, 117]), ("x" * 99, [121] * 48), ("\ud800a", [98])],
)
def test_a_word_has_the_ids_of_the_published_models(word, ids):
    indexer = ELMoTokenCharactersIndexer()
    token = SimpleNamespace(text=word)
    assert indexer.tokens_to_indices([token], object(), "name") == {"name": [row(*ids)]}
    assert indexer.tokens_to_indices([word]) == {"tokens": [row(*ids)]}
    assert indexer.token_to_indices(token, object()) == indexer.token_to_indices(word) == row(*ids)


def test_an_added_token_is_one_character():
    indexer = ELMoTokenCharactersIndexer(tokens_to_add={"<first>": 1})
    assert indexer.tokens_to_indices(["<first>", "a"])["tokens"] == [row(2), row(98)]
    assert indexer != ELMoTokenCharactersIndexer()


def test_padding_adds_rows_of_zeros_as_lists_and_as_tensors():
    indexer = ELMoTokenCharactersIndexer()
    ids = indexer.tokens_to_indices(["a", "b"])
    expected = [row(98), row(99), [0] * 50]
    assert indexer.pad_token_sequence(ids, {"tokens": 3}, {})["tokens"] == expected
    assert indexer.as_padded_tensor(ids, {"tokens": 3}, {})["tokens"].tolist() == expected
    assert indexer.as_padded_tensor_dict(ids, {"tokens": 1})["tokens"].tolist() == expected[:1]
    assert indexer.get_padding_lengths("a") == {}
    assert ELMoTokenCharactersIndexer(token_min_padding_length=2).get_token_min_padding_length() == 2
    assert indexer.get_keys("tokens") == ["tokens"]


def test_a_token_without_text_is_refused():
    with pytest.raises(ConfigurationError, match="a token without text"):
        ELMoTokenCharactersIndexer().tokens_to_indices([SimpleNamespace(text=None)], object(), "name")


def test_the_mapper_counts_characters_without_the_one_for_padding():
    mapper = ELMoCharacterMapper
    assert mapper.beginning_of_sentence_characters[:4] == [258, mapper.beginning_of_sentence_character, 259, 260]
    assert mapper.end_of_sentence_characters[1] == mapper.end_of_sentence_character == 257
    assert mapper().convert_word_to_char_ids(mapper.bos_token) == [
        c + 1 for c in mapper.beginning_of_sentence_characters
    ]
    assert mapper() == mapper({})


def test_the_mapper_can_be_called_on_its_class_as_in_the_first_releases():
    assert ELMoCharacterMapper.convert_word_to_char_ids("a") == row(98)
    assert list(map(ELMoCharacterMapper.convert_word_to_char_ids, "ab")) == [row(98), row(99)]
    assert ELMoCharacterMapper({"a": 1}).convert_word_to_char_ids("a") == row(2)


def test_a_string_is_a_sentence_of_characters():
    assert torch.equal(batch_to_ids(["SEQ"]), batch_to_ids([["S", "E", "Q"]]))
