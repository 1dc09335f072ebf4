"""`stelmo pretrain`: what it prints, and one clear sentence with exit code 2 for what is wrong."""

import re
from functools import partial

import commands
import corpora
import pytest

from stelmo.cli import pretrain as verb
from stelmo.cli import screen
from stelmo.train.pretrain import Outcome
from stelmo.train.run_state import Best, StepReport

SETTINGS = ("--set", "batch=4", "--set", "unroll=5", "--set", "tokens=100", "--set", "lstm.cells=8")


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return corpora.make(tmp_path_factory.mktemp("data") / "corpus", corpora.sentences(40), heldout=4)


@pytest.fixture
def call(monkeypatch, capsys, tmp_path, corpus):
    monkeypatch.chdir(tmp_path)
    return partial(commands.run, monkeypatch, capsys, "pretrain")


def test_a_run_ends_with_the_perplexity_and_the_place_of_the_model(call, corpus, tmp_path):
    done = call("tiny", "--data", corpus, "--to", "run", *SETTINGS)
    assert done.code == 0, done.err
    assert done.out.startswith("run/model: held-out perplexity ")
    assert "forward" in done.out
    assert (tmp_path / "run" / "model" / "config.json").is_file()


def test_the_same_command_again_has_nothing_to_do(call, corpus):
    call("tiny", "--data", corpus, "--to", "run", *SETTINGS)
    done = call("tiny", "--data", corpus, "--to", "run", *SETTINGS)
    assert "this run is finished; nothing to do" in done.out


def test_settings_come_from_a_file(call, corpus, tmp_path):
    (tmp_path / "s.toml").write_text("batch = 4\nunroll = 5\ntokens = 40\n[lstm]\ncells = 8\n")
    assert "after 40 tokens" in call("tiny", "--data", corpus, "--to", "run", "--settings", "s.toml").out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["huge"], "'huge' is not a preset"),
        (["tiny", "--set", "lr=fast"], "lr: .*fast"),
        (["tiny", "--set", "learning_rate=1"], "no setting 'learning_rate'"),
        (["tiny", "--settings", "absent.toml"], "absent.toml: cannot be read as TOML"),
        (["tiny", "--set", "batch=5000"], "training sentences for a batch of 5000 rows"),
        (["tiny", "--to", "no/such/folder"], "there is no folder"),
        (["tiny", "--data", "nowhere"], "nowhere: no such folder; `stelmo prepare`"),
    ],
)
def test_what_is_wrong_is_one_sentence(arguments, message, call, corpus):
    done = call(arguments[0], "--data", corpus, "--to", "run", *arguments[1:])
    assert done.code == 2
    assert done.err.count("\n") == 1
    assert re.search(message, done.err)


# Static vectors


def vectors(path, words, width=3, **given):
    """A file in GloVe's format; `given` replaces the vectors of some words."""
    rows = {word: f"{number} {-number} {number**2 % 7}{' 1' * (width - 3)}" for number, word in enumerate(words, 1)}
    path.write_text("".join(f"{word} {row}\n" for word, row in (rows | given).items()))


KNOWN = [f"w{number}" for number in range(40)]
WRONG_VECTORS = {
    "another language": (lambda path: vectors(path, ["der", "die", "w27"]), [], r"they know \d\.\d% of the running"),
    "fewer dimensions than asked": (
        lambda path: vectors(path, KNOWN),
        ["vectors.dimensions=4"],
        "vectors.dimensions is 4, but v.txt has 3; ask for 3",
    ),
    "not a number": (lambda path: vectors(path, KNOWN, w1="1 nan 2"), [], "the vector of 'w1' is not finite"),
    "infinite": (lambda path: vectors(path, KNOWN, w1="1 inf 2"), [], "the vector of 'w1' is not finite"),
    "rows of different lengths": (lambda path: vectors(path, KNOWN, w9="1 2"), [], r"v\.txt:10: .*2"),
    "an empty file": (lambda path: path.write_text(""), [], r"v\.txt"),
    "bytes": (lambda path: path.write_bytes(b"\x80\xff" * 50), [], r"v\.txt"),
    "no file": (lambda path: None, [], r"v\.txt: .*[Nn]o such file"),
}  # fmt: skip


@pytest.mark.parametrize(("make", "words", "message"), WRONG_VECTORS.values(), ids=WRONG_VECTORS)
def test_vectors_that_do_not_fit_are_refused_before_anything_is_written(make, words, message, call, corpus, tmp_path):
    make(tmp_path / "v.txt")
    chosen = [part for word in words for part in ("--set", word)]
    done = call("tiny", "--data", corpus, "--to", "run", *SETTINGS, "--vectors", "v.txt", *chosen)
    assert (done.code, done.out) == (2, "")
    assert done.err.count("\n") == 1
    assert re.search(message, done.err), done.err
    assert not (tmp_path / "run").exists()


def test_vectors_of_another_language_can_be_allowed(call, corpus, tmp_path):
    vectors(tmp_path / "v.txt", ["der", "die", "w27", "w31", "w34"])
    chosen = ["--vectors", "v.txt", "--set", "vectors.least_known=0", "--set", "vectors.steps=2"]
    done = call("tiny", "--data", corpus, "--to", "run", *SETTINGS, *chosen)
    assert done.code == 0, done.err
    assert re.search(r"note: warm start: \d of .* \(\d+\.\d% of the running words\)", done.err)


def test_more_dimensions_than_the_projection_are_reduced_and_it_is_said(call, corpus, tmp_path):
    vectors(tmp_path / "v.txt", KNOWN, width=20)
    done = call("tiny", "--data", corpus, "--to", "run", *SETTINGS, "--vectors", "v.txt", "--set", "vectors.steps=2")
    assert done.code == 0, done.err
    assert "note: v.txt: 20 dimensions; the 16 main directions are used (the projection has 16)" in done.err


def test_a_run_resumes_only_with_the_vectors_it_was_started_with(call, corpus, tmp_path):
    command = ("tiny", "--data", corpus, "--to", "run", *SETTINGS, "--vectors", "v.txt", "--set", "vectors.steps=2")
    vectors(tmp_path / "v.txt", KNOWN)
    assert call(*command).code == 0
    vectors(tmp_path / "v.txt", KNOWN, w3="5 5 5")
    done = call(*command)
    assert done.code == 2
    assert "vectors.digest is" in done.err
    vectors(tmp_path / "v.txt", KNOWN)
    assert "nothing to do" in call(*command).out


def test_an_interrupt_says_how_to_resume(call, corpus, monkeypatch):
    def interrupted(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr("stelmo.train.pretrain.pretrain", interrupted)
    done = call("tiny", "--data", corpus, "--to", "run")
    assert done.code == 130
    assert done.err == "stelmo: interrupted; run the same command again to resume\n"


def test_a_run_that_was_stopped_says_how_to_resume(call, corpus, monkeypatch):
    stopped = Outcome(finished=False, worked=True, step=1234, tokens=5, best=None, first=True)
    monkeypatch.setattr("stelmo.train.pretrain.pretrain", lambda *arguments: stopped)
    done = call("tiny", "--data", corpus, "--to", "run")
    assert done.code == 130
    assert done.err == "stelmo: stopped after step 1,234; run the same command again to resume\n"


def test_help_has_an_example(call):
    done = call("--help")
    assert done.code == 0
    assert "Example: stelmo pretrain" in done.out


REPORT = StepReport(120, 300, 24_000, 1234.5, 0.4, 3725.0, 4.25, Best(100, 50.0, 72.0, 900))


def test_progress_tells_rate_loss_perplexity_and_time_left():
    assert verb._figures(REPORT) == (
        "step 120/300, 24,000 tokens, 1,234/s, training loss 4.25, held-out perplexity 60.0, 1:02:05 left"
    )


def test_under_a_time_budget_the_number_of_steps_is_not_known():
    assert verb._figures(REPORT._replace(steps=None, best=None)).startswith("step 120, 24,000 tokens")


def test_off_a_terminal_a_line_comes_now_and_then(monkeypatch, capsys):
    clock = iter([0.0, 5.0, 11.0, 12.0])
    monkeypatch.setattr("stelmo.cli.screen.time.monotonic", lambda: next(clock))
    with screen.report_progress(verb.shown) as watch:
        for _ in range(3):
            watch.update(REPORT)
    assert capsys.readouterr().err.count("training: step 120") == 1
