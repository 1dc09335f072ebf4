"""Real processes: start-up, a killed run, a full disk, a closed pipe."""

import os
import resource
import signal
import subprocess
import sys
import time

import efml_oracle
import pytest
import tiny

pytestmark = pytest.mark.long

SLOW_SENTENCES = "\n".join(f"the river number {number} runs past the bank" for number in range(6000))


def stelmo(*arguments, **options):
    return subprocess.run(
        [sys.executable, "-m", "stelmo", *map(str, arguments)], capture_output=True, text=True, check=False, **options
    )


def test_importing_stelmo_loads_nothing_heavy():
    code = "import stelmo, sys; print(sorted({'torch', 'h5py', 'pyarrow', 'fastapi', 'numpy'} & set(sys.modules)))"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"


def test_loading_a_folder_and_embedding_needs_no_h5py_and_no_pyarrow(tmp_path):
    tiny.folder(tmp_path / "m")
    code = (
        "import stelmo, sys; stelmo.load(sys.argv[1]).embed([['a']]); stelmo.tokenize('a b.');"
        "print(sorted({'h5py', 'pyarrow', 'fastapi', 'huggingface_hub'} & set(sys.modules)))"
    )
    assert subprocess.check_output([sys.executable, "-c", code, tmp_path / "m"], text=True).strip() == "[]"


@pytest.fixture
def corpus(tmp_path):
    tiny.folder(tmp_path / "m")
    (tmp_path / "c.tok").write_text(SLOW_SENTENCES)
    return tmp_path


def command(folder, output):
    return ["embed", folder / "c.tok", "-m", folder / "m", "-o", folder / output, "--threads", 1]


def wait_for_a_finished_block(work, process):
    while not list(work.glob("*.npz")):
        assert process.poll() is None, "it ended before it could be killed"
        time.sleep(0.01)


def test_a_killed_run_goes_on_and_ends_in_the_same_bytes(corpus):
    process = subprocess.Popen([sys.executable, "-m", "stelmo", *map(str, command(corpus, "killed.npz"))])
    wait_for_a_finished_block(corpus / "killed.npz.partial", process)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not (corpus / "killed.npz").exists()
    assert stelmo(*command(corpus, "killed.npz")).returncode == 0
    assert stelmo(*command(corpus, "whole.npz")).returncode == 0
    assert (corpus / "killed.npz").read_bytes() == (corpus / "whole.npz").read_bytes()
    assert not list(corpus.glob("*.partial"))


def test_an_interrupt_says_how_to_resume(corpus):
    process = subprocess.Popen(
        [sys.executable, "-m", "stelmo", *map(str, command(corpus, "v.npz"))], stderr=subprocess.PIPE, text=True
    )
    wait_for_a_finished_block(corpus / "v.npz.partial", process)
    process.send_signal(signal.SIGINT)
    assert "run the same command again to resume" in process.communicate()[1]
    assert process.returncode == 130


def limit_files_to(size):
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


@pytest.mark.parametrize("ending", ["hdf5", "npz", "parquet", "jsonl"])
def test_a_disk_that_fills_up_leaves_no_half_file_and_loses_no_block(ending, corpus):
    """The limit lets blocks through but not the whole file."""
    done = stelmo(*command(corpus, f"v.{ending}"), preexec_fn=limit_files_to(1_500_000))
    assert done.returncode == 2, done.stderr
    assert "disk is full or a size limit" in done.stderr
    assert "Traceback" not in done.stderr
    assert sorted(entry.name for entry in corpus.iterdir()) == ["c.tok", "m", f"v.{ending}.partial"]
    assert stelmo(*command(corpus, f"v.{ending}")).returncode == 0


def model_of_code_points(folder):
    """Beside the other model, where it is in nobody's way."""
    folder.mkdir()
    return efml_oracle.write(efml_oracle.random_model(efml_oracle.architecture(40, 30)), folder)


@pytest.mark.parametrize("to", ["stelmo", "bilm", "efml"])
def test_converting_onto_a_full_disk_leaves_nothing(to, corpus):
    source = model_of_code_points(corpus / "m" / "efml") if to == "efml" else corpus / "m"
    done = stelmo("convert", source, corpus / "x", "--format", to, preexec_fn=limit_files_to(4096))
    assert done.returncode == 2, done.stderr
    assert "disk is full or a size limit" in done.stderr
    assert sorted(entry.name for entry in corpus.iterdir()) == ["c.tok", "m"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_may_not_be_written_is_said(corpus):
    corpus.chmod(0o500)
    done = stelmo(*command(corpus, "v.npz"))
    assert done.returncode == 2
    assert "cannot be written" in done.stderr


def test_a_reader_that_closes_the_pipe_is_no_error(corpus):
    line = f"{sys.executable} -m stelmo embed {corpus / 'c.tok'} -m {corpus / 'm'} -o - | head -n 1"
    done = subprocess.run(line, shell=True, capture_output=True, text=True, check=False)
    assert done.stdout.startswith('{"tokens"')
    assert "Traceback" not in done.stderr
