"""A model with its softmax and tokenised text → perplexity for each start state. Run: start_state.py MODEL TEXT…

TEXT is CoNLL-U or one tokenised sentence a line. Each sentence is scored on its own, with the full softmax.
"""

import sys
from itertools import islice

import stelmo
from stelmo.lm.perplexity import perplexity
from stelmo.text import formats
from stelmo.text.files import LineReader

SENTENCES = 1000
MOST_TOKENS = 60


def sentences(path: str) -> list[list[str]]:
    layout = "conllu" if formats.guess(path) == "conllu" else "tokens"
    with LineReader(path) as reader:
        found = formats.read(reader, path, layout, tokenizer=lambda line: [line.split()])
        usable = (sentence.tokens for sentence in found if 2 < len(sentence.tokens) <= MOST_TOKENS)
        return list(islice(usable, SENTENCES))


def main(model_path: str, *texts: str) -> None:
    model = stelmo.load(model_path)
    print("| text | predictions | state | forward | backward | both |\n|---|---|---|---|---|---|")
    for path in texts:
        text = sentences(path)
        for state in ("fresh", "warm"):
            found = perplexity(model.log_probs(text, state))
            name = path.rsplit("/", 1)[-1]
            columns = (name, found.predictions, state, f"{found.forward:.1f}", f"{found.backward:.1f}")
            print("|", " | ".join(map(str, columns)), "|", f"{found.combined:.1f}", "|", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
