"""The sentences of the index that the browser tests look at, each with a topic as a column of the data."""

from stelmo.text import formats

MONEY = ["lends money", "raised its rate", "gave a loan", "has a vault", "holds the gold", "closed at noon"]
WATER = ["of the river", "near the water", "under a tree", "was muddy", "with green reeds", "along the stream"]
MARKUP = "<b>bank</b> and <script>alert(1)</script> beside a bank ."
ARABIC = "ذهب الولد إلى bank النهر في المساء ."
TEXT = [
    *(f"{start} bank {end} ." for start in ("the", "a") for end in MONEY + WATER),
    MARKUP,
    ARABIC,
    "the river runs .",
    "a river rests .",
]
TOPICS = ["money" if any(end in line for end in MONEY) else "water" for line in TEXT]
SENTENCES = [
    formats.Sentence(line.split(), "corpus", 1, (("topic", [topic] * len(line.split())),))
    for line, topic in zip(TEXT, TOPICS, strict=True)
]
BANKS = sum(line.split().count("bank") for line in TEXT)
