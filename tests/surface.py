"""The public surface of each old program, and what of it the compat modules have, as the tables of docs/migration.md.

`CALLS` lists functions and methods with their arguments, in the order in which the originals take them: AllenNLP 0.9,
bilm-tf 0.1, TF-Hub's `hub.Module` and `hub.load`, simple_elmo 0.9.2, ELMoForManyLangs 0.0.4.
"""

import importlib
import re
from pathlib import Path
from types import ModuleType

from stelmo.compat import COMMANDS

TESTS = Path(__file__).parent / "unit" / "compat"
FILES = "options_file weight_file"
CALLS = {
    "allennlp": {
        "Elmo": f"{FILES} num_output_representations requires_grad do_layer_norm dropout vocab_to_cache "
        "keep_sentence_boundaries scalar_mix_parameters module",
        "Elmo.forward": "inputs word_inputs",
        "Elmo.get_output_dim": "",
        "Elmo.from_params": "params",
        "batch_to_ids": "batch",
        "_ElmoBiLm": f"{FILES} requires_grad vocab_to_cache",
        "_ElmoBiLm.forward": "inputs word_inputs",
        "_ElmoBiLm.get_output_dim": "",
        "_ElmoBiLm.create_cached_cnn_embeddings": "tokens",
        "_ElmoCharacterEncoder": f"{FILES} requires_grad",
        "_ElmoCharacterEncoder.forward": "inputs",
        "_ElmoCharacterEncoder.get_output_dim": "",
        "ScalarMix": "mixture_size do_layer_norm initial_scalar_parameters trainable",
        "ScalarMix.forward": "tensors mask",
        "ElmoTokenEmbedder": f"{FILES} do_layer_norm dropout requires_grad projection_dim vocab_to_cache "
        "scalar_mix_parameters",
        "ElmoTokenEmbedder.forward": "inputs word_inputs",
        "ElmoTokenEmbedder.get_output_dim": "",
        "ElmoTokenEmbedder.from_params": "vocab params",
        "ElmoEmbedder": f"{FILES} cuda_device",
        "ElmoEmbedder.batch_to_embeddings": "batch",
        "ElmoEmbedder.embed_sentence": "sentence",
        "ElmoEmbedder.embed_batch": "batch",
        "ElmoEmbedder.embed_sentences": "sentences batch_size",
        "ElmoEmbedder.embed_file": "input_file output_file_path output_format batch_size forget_sentences "
        "use_sentence_keys",
        "empty_embedding": "",
        "main": "prog subcommand_overrides",
        "ELMoTokenCharactersIndexer": "namespace tokens_to_add token_min_padding_length",
        "ELMoTokenCharactersIndexer.count_vocab_items": "token counter",
        "ELMoTokenCharactersIndexer.tokens_to_indices": "tokens vocabulary index_name",
        "ELMoTokenCharactersIndexer.get_padding_token": "",
        "ELMoTokenCharactersIndexer.get_padding_lengths": "token",
        "ELMoTokenCharactersIndexer.get_token_min_padding_length": "",
        "ELMoTokenCharactersIndexer.get_keys": "index_name",
        "ELMoTokenCharactersIndexer.as_padded_tensor": "tokens desired_num_tokens padding_lengths",
        "ELMoTokenCharactersIndexer.pad_token_sequence": "tokens desired_num_tokens padding_lengths",
        "ELMoCharacterMapper": "tokens_to_add",
        "ELMoCharacterMapper.convert_word_to_char_ids": "word",
        "remove_sentence_boundaries": "tensor mask",
    },
    "bilm": {
        "Vocabulary": "filename validate_file",
        "Vocabulary.word_to_id": "word",
        "Vocabulary.id_to_word": "cur_id",
        "Vocabulary.decode": "cur_ids",
        "Vocabulary.encode": "sentence reverse split",
        "UnicodeCharsVocabulary": "filename max_word_length",
        "UnicodeCharsVocabulary.word_to_char_ids": "word",
        "UnicodeCharsVocabulary.encode_chars": "sentence reverse split",
        "Batcher": "lm_vocab_file max_token_length",
        "Batcher.batch_sentences": "sentences",
        "TokenBatcher": "lm_vocab_file",
        "TokenBatcher.batch_sentences": "sentences",
        "dump_bilm_embeddings": "vocab_file dataset_file options_file weight_file outfile",
        "dump_token_embeddings": "vocab_file options_file weight_file outfile",
    },
    "tfhub": {
        "Module": "spec trainable name tags",
        "Module.__call__": "inputs signature as_dict",
        "load": "handle tags",
    },
    "simple_elmo": {
        "ElmoModel": "",
        "ElmoModel.load": "directory max_batch_size limit full",
        "ElmoModel.get_elmo_vectors": "texts warmup layers session",
        "ElmoModel.get_elmo_vector_average": "texts warmup layers session",
        "ElmoModel.get_elmo_substitutes": "data topn nodelimiters",
    },
    "elmoformanylangs": {
        "Embedder": "model_dir batch_size",
        "Embedder.sents2elmo": "sents output_layer",
    },
}
PROGRAMS = {
    "allennlp": ("AllenNLP", ("test_allennlp", "test_elmo_bilm")),
    "bilm": ("bilm-tf", ("test_bilm",)),
    "tfhub": ("TF-Hub", ("test_tfhub",)),
    "simple_elmo": ("simple_elmo", ("test_simple_elmo",)),
    "elmoformanylangs": ("ELMoForManyLangs", ("test_elmoformanylangs",)),
}


def compat(name: str) -> ModuleType:
    return importlib.import_module(f"stelmo.compat.{name}")


def imports_table() -> str:
    """Old import line or command → the new one."""
    rows = []
    for name in CALLS:
        for old, names in compat(name).IMPORTS.items():
            listed = ", ".join(names)
            pair = (f"from {old} import {listed}", f"from stelmo.compat.{name} import {listed}")
            rows.append(
                pair if name != "tfhub" else (f"import {old} as hub", f"from stelmo.compat import {name} as hub")
            )
    return _table("old", "new", rows=[(f"`{old}`", f"`{new}`") for old, new in (*rows, *COMMANDS.items())])


def coverage_table() -> str:
    """How much of each program's surface is here, and how many behaviours are tested."""
    rows = []
    for name, (program, tests) in PROGRAMS.items():
        here = len({found for names in compat(name).IMPORTS.values() for found in names})
        arguments = sum(len(found.split()) for found in CALLS[name].values())
        sources = [(TESTS / f"{test}.py").read_text(encoding="utf-8") for test in tests]
        behaviours = sum(len(re.findall(r"^def test_", source, re.MULTILINE)) for source in sources)
        total = here + len(compat(name).ABSENT)
        rows.append((program, f"{here} of {total}", str(len(CALLS[name])), str(arguments), str(behaviours)))
    return _table("program", "names", "functions and methods", "their arguments", "behaviours tested", rows=rows)


def absent_table() -> str:
    """The names that are not here, and what takes their place."""
    return _table(
        "old name",
        "in its place",
        rows=[(f"`{old}`", instead) for name in CALLS for old, instead in compat(name).ABSENT.items()],
    )


def _table(*heads: str, rows: list[tuple[str, ...]]) -> str:
    lines = [heads, ("---",) * len(heads)]
    return "".join(
        f"|{'|'.join(line)}|\n" if line[0] == "---" else f"| {' | '.join(line)} |\n" for line in (*lines, *rows)
    )
