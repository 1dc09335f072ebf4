"""Training steps of a task by two source trees, or with other settings: examples per second of processor time.

    git worktree add ../before COMMIT      # one whose tasks/loop.py has `Training`
    python bench/task_speed.py squad data/squad glove --tree ../before/src --tree src --rounds 12
    python bench/task_speed.py srl data/srl glove --tree src --tree src,batch=64 --elmo none
    python bench/task_speed.py srl data/srl glove --tree src --tree src,LD_PRELOAD=libtcmalloc_minimal.so.4

A variant is a tree and settings as for `stelmo task --set`, separated by commas; names in capitals are environment
variables. Each runs in its own process with one
thread and trains the same batches of real examples from the same seed; layers of ELMo are computed before. The
variants take turns, one step each, so that a busy machine slows them down alike. Printed are the median time of a step,
the examples per second, and the losses of the first steps, which show whether the variants compute the same numbers
(dropout is off unless --dropout is given).
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path


def worker(options: argparse.Namespace) -> None:
    """Answers each line of the standard input by a step: its loss, seconds and examples."""
    import torch

    import stelmo
    from stelmo.progress import NoProgress
    from stelmo.tasks import experiment, network
    from stelmo.tasks.loop import Training, shuffled

    torch.set_num_threads(1)
    placement = {} if options.elmo == "paper" else {"placement": options.elmo}
    examples = [f"train_examples={options.examples}", "dev_examples=16", "test_examples=16"]
    config = network.configure(options.task, options.size, placement, [*examples, *options.set], options.vectors)
    model = None if options.elmo == "none" else stelmo.load(options.model)
    layers = Path(options.layers)
    materials = experiment.prepare(config, Path(options.data), model, None, layers, None, NoProgress())
    built = experiment.new_network(config, materials, 0)
    training = Training(built.net, config.train, 0)
    batches = shuffled(materials.data.train, config.task.tokens, config.train.batch, 1)
    built.net.train()
    if not options.dropout:
        for module in built.net.modules():
            if hasattr(module, "p"):
                module.p = 0.0
            if isinstance(getattr(module, "dropout", None), float):
                module.dropout = 0.0
    print("ready", flush=True)
    for turn, _ in enumerate(sys.stdin):
        batch = batches[turn % len(batches)]
        started = time.process_time()
        loss = training.step(batch)
        print(json.dumps([loss, time.process_time() - started, len(batch)]), flush=True)


class Variant:
    def __init__(self, text: str, arguments: list[str], layers: str) -> None:
        tree, *settings = text.split(",")
        self.name = text
        command = [sys.executable, __file__, *arguments, "--worker", "--layers", layers]
        pairs = [setting.partition("=") for setting in settings]
        command += [word for name, _, value in pairs if not name.isupper() for word in ("--set", f"{name}={value}")]
        own = {name: value for name, _, value in pairs if name.isupper()}
        environment = {**os.environ, "PYTHONPATH": str(Path(tree).resolve()), "OMP_NUM_THREADS": "1", **own}
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )
        self.losses: list[float] = []
        self.seconds: list[float] = []
        self.examples: list[int] = []
        assert self.process.stdout is not None
        if self.process.stdout.readline().strip() != "ready":  # one after another, since they share the layers
            sys.exit(f"{text}: the process ended before its first step")

    def step(self) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write("step\n")
        self.process.stdin.flush()
        loss, seconds, examples = json.loads(self.process.stdout.readline())
        self.losses.append(loss)
        self.seconds.append(seconds)
        self.examples.append(examples)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task")
    parser.add_argument("data")
    parser.add_argument("vectors")
    parser.add_argument("--tree", action="append", metavar="TREE[,name=value …]", help="a variant")
    parser.add_argument("--size", default="workstation")
    parser.add_argument("--elmo", default="paper", help="none, input, output, both; unset: as in the paper")
    parser.add_argument("--model", help="unset: the bundled one")
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--examples", type=int, default=1600, help="to choose the batches from")
    parser.add_argument("--dropout", action="store_true")
    parser.add_argument("--layers", help="a folder that keeps the layers of ELMo for the next call")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--set", action="append", default=[], help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        return worker(options)
    arguments = [options.task, options.data, options.vectors, "--size", options.size, "--elmo", options.elmo]
    arguments += ["--examples", str(options.examples)]
    arguments += [*(["--dropout"] if options.dropout else []), *(["--model", options.model] if options.model else [])]
    with tempfile.TemporaryDirectory() as folder:
        layers = options.layers or str(Path(folder) / "layers")
        variants = [Variant(text, arguments, layers) for text in options.tree or ["src"]]
        for _ in range(options.rounds + 2):
            for variant in variants:
                variant.step()
        for variant in variants:
            variant.process.kill()
    first = variants[0]
    for variant in variants:
        seconds = statistics.median(variant.seconds[2:])  # the first two warm up
        rate, base = (sum(one.examples[2:]) / sum(one.seconds[2:]) for one in (variant, first))
        losses = " ".join(f"{loss:.5f}" for loss in variant.losses[:4])
        print(
            f"{variant.name}: {seconds:.3f} s per step, {rate:.1f} examples per second, {rate / base:.2f} × the first"
        )
        print(f"   losses {losses}")
    return None


if __name__ == "__main__":
    main()
