"""What is not a list of sentences is refused, with the way out; character ids are checked in test_elmo.py."""

import pytest
import tiny

from stelmo.errors import DataError


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("The bank .", r"stelmo\.tokenize"),
        (["The bank .", "A river ."], "sentence 0 is the string"),
        (["The", "bank"], "pass a single sentence as"),
        ([["a"], ["b", 3]], "sentence 1, token 1 is int 3"),
        ([["a", None]], "token 1 is NoneType"),
        ([["a"], None], "sentence 1 is NoneType"),
        ([[b"a"]], "token 0 is bytes"),
        (7, "is not a list of sentences"),
    ],
)
def test_what_is_not_tokens_is_refused_with_the_way_out(given, message):
    with pytest.raises(DataError, match=message):
        tiny.model().embed(given)
