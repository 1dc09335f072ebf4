"""One thread for every test process: several with several threads each, on few cores, wait for one another.

No test is timed, so Hypothesis may take as long as a busy machine does.

A shell ignores Ctrl-C for what it starts in the background, and children inherit that: tests that interrupt would wait.
"""

import signal

import hypothesis
import pytest
import torch

torch.set_num_threads(1)
hypothesis.settings.register_profile("untimed", deadline=None)
hypothesis.settings.load_profile("untimed")
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def _pictures_are_empty_files(request, monkeypatch):
    """Drawing takes longer than training a tiny model: only tests marked `pictures`, which look at one, draw it."""
    if "pictures" not in request.keywords:
        monkeypatch.setattr("stelmo.plots._write", _write_nothing)


def _write_nothing(path, draw, size):
    from stelmo import plots  # here, as below
    from stelmo.store import atomic

    plots.refuse(path)
    with atomic.new_file(path, overwrite=True) as draft:
        draft.touch()


@pytest.fixture(params=["torch", "onednn"])
def each_arithmetic(request, monkeypatch):
    """Products and tanh of torch, then those for processors on which torch's are slow, whatever their size."""
    from stelmo.ops import arithmetic

    if request.param == "onednn" and not torch.backends.mkldnn.is_available():
        pytest.skip("this torch has no oneDNN")
    monkeypatch.setattr(arithmetic, "avoids_mkl", request.param == "onednn")
    for least in ("ROWS", "WORK", "NUMBERS"):
        monkeypatch.setattr(arithmetic, least, 0)
    return request.param


@pytest.fixture
def model():
    """A small model with random weights, a vocabulary, a softmax and a warm state; new for every test."""
    import tiny  # here: tests that measure what an import costs start without it

    return tiny.model()


@pytest.fixture(scope="session")
def bert(tmp_path_factory):
    """A random BERT of eight positions whose words fall into sub-tokens of known number."""
    transformers = pytest.importorskip("transformers")
    folder = tmp_path_factory.mktemp("models") / "tiny-bert"
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "bank", "un", "##believ", "##able"]
    folder.mkdir()
    (folder / "vocab.txt").write_text("\n".join(pieces))
    transformers.BertTokenizerFast(vocab=str(folder / "vocab.txt"), model_max_length=8).save_pretrained(folder)
    shape = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    config = transformers.BertConfig(vocab_size=len(pieces), max_position_embeddings=8, **shape)
    torch.manual_seed(0)
    transformers.BertModel(config).save_pretrained(folder)
    return folder
