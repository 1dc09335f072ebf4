"""Words of an index → one HTML file with their maps, which needs no server; and the same in a notebook.

The file is drawn by the modules of the explorer page. A browser loads no modules from a local file, so each module is a
`data:` address in an import map, and a module imports another by its name alone.
"""

import base64
import html
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from stelmo import __version__
from stelmo.embed.model import Model
from stelmo.errors import DataError
from stelmo.explore import contexts, search
from stelmo.explore import index as indices
from stelmo.explore.contexts import Contexts
from stelmo.explore.index import Index, Rules, Use
from stelmo.explore.maps import WordMap, word_map
from stelmo.explore.mixing import of_layer
from stelmo.settings import Layer
from stelmo.store import atomic
from stelmo.text import sentences as text

SITE = Path(__file__).parents[1] / "serve" / "site"
START = "file.js"  # the module that starts the page
LIMIT = 200  # uses of a word: enough for a map, and the file stays small
NEAR = 5  # nearest uses of each use
HEIGHT = 900  # pixels of the output of a notebook cell
_IMPORT = re.compile(r'(?<=from ")\./(?=([\w-]+\.js)")')
# Nothing is loaded from anywhere: the scripts and the data are in the file.
_POLICY = "default-src 'none'; script-src 'unsafe-inline' data:; style-src 'unsafe-inline'; img-src data: blob:"


class Page:
    """An HTML document; a notebook shows it as the output of a cell."""

    def __init__(self, document: str, height: int = HEIGHT) -> None:
        self.html, self.height = document, height

    def save(self, path: str | Path, overwrite: bool = False) -> None:
        with atomic.new_file(Path(path), overwrite=overwrite) as draft:
            draft.write_text(self.html, encoding="utf-8")

    def _repr_html_(self) -> str:
        """In a frame, so that its styles and scripts do not affect those of the notebook."""
        style = f"width:100%;height:{self.height}px;border:0"
        return f'<iframe srcdoc="{html.escape(self.html)}" style="{style}" title="stelmo explorer"></iframe>'


def page(
    index: Index,
    words: Iterable[str],
    *,
    model: Model | None = None,
    name: str = "english",
    credit: str = "",
    limit: int = LIMIT,
) -> Page:
    """The maps of some words: every layer and the mean of all. `credit` says whose text it is.

    With the `model` of the index, uses are grouped by the words around them and groups have substitutes as labels.
    """
    wanted = list(dict.fromkeys(word.lower() for word in words))
    if not wanted:
        raise DataError("no words to show; name at least one word of the index")
    for word in wanted:
        if word not in index.words:
            known = ", ".join(search.spelled_like(index, word, 3))
            advice = f"did you mean {known}?" if known else "choose words that the text contains"
            raise DataError(f"{index.folder}: no use of {word!r:.60}; {advice}")
    description = {
        "name": name,
        "layers": index.depth,
        "width": index.width,
        "version": __version__,
        "credit": credit,
        "map_methods": ["pca"],
    }
    around = None if model is None else contexts.of_model(model)
    maps = {word: _word(index, word, model, around, limit) for word in wanted}
    return Page(_document({"model": description, "words": maps}))


def show(
    model: Model,
    sentences: str | Sequence[Sequence[str]],
    word: str,
    *,
    language: str = "en",
    contractions: str = "ptb",
    name: str = "your model",
    credit: str = "",
    limit: int = LIMIT,
) -> Page:
    """The map of a word in these sentences (or in this text), for a notebook: the last line of a cell shows it."""
    rules = Rules(language, contractions)
    tokenised = text.tokenize(sentences, *rules) if isinstance(sentences, str) else sentences
    with TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        index = indices.build(model, tokenised, Path(folder) / "uses", words=[word], rules=rules)
        if not len(index):
            raise DataError(f"the sentences do not contain {word!r:.60}; give a word as it appears after tokenising")
        return page(index, [word], model=model, name=name, credit=credit, limit=limit)


def _word(index: Index, word: str, model: Model | None, around: Contexts | None, limit: int) -> dict[str, Any]:
    """What the page shows of a word. Without `around`, the uses are grouped separately on each layer."""
    layers: list[Layer] = [*range(index.depth), "mean"]
    found = {
        str(layer): word_map(index, word, [of_layer(layer, index.depth)], contexts=around, limit=limit, near=NEAR)
        for layer in layers
    }
    first = next(iter(found.values()))
    instead: dict[bytes, list[list[str]]] = {}  # by the groups, which are the same on all layers if `around` is given
    for made in found.values():
        if made.groups_N.tobytes() not in instead:
            groups = _grouped(made)
            substitutes = contexts.substitutes(model, groups) if model else [[] for _ in groups]
            instead[made.groups_N.tobytes()] = substitutes
    return {
        "total": first.total,
        "uses": [
            {
                "id": use.id,
                "tokens": use.tokens,
                "position": use.position,
                "columns": {name: values[place] for name, values in first.columns.items()},
            }
            for place, use in enumerate(first.uses)
        ],
        "maps": {
            layer: {
                "points": made.maps[0].points_N2.round(4).tolist(),
                "trustworthiness": round(made.maps[0].trustworthiness, 4),
                "near": [[(use, round(cosine, 2)) for use, cosine in near] for near in made.maps[0].near],
                "groups": made.groups_N.tolist(),
                "clusters": [
                    {"size": len(uses), "words": words, "substitutes": substitutes, "examples": examples}
                    for uses, words, substitutes, examples in zip(
                        _grouped(made), made.labels, instead[made.groups_N.tobytes()], made.examples, strict=True
                    )
                ],
            }
            for layer, made in found.items()
        },
    }


def _grouped(made: WordMap) -> list[list[Use]]:
    """The uses of each group."""
    groups: list[list[Use]] = [[] for _ in made.labels]
    for use, group in zip(made.uses, made.groups_N.tolist(), strict=True):
        groups[group].append(use)
    return groups


def _document(data: dict[str, Any]) -> str:
    """The HTML file with style sheets, d3, the modules and the data."""
    modules = {}
    for name in _modules():
        source = _IMPORT.sub("", _site(name)).encode()
        modules[name] = f"data:text/javascript;base64,{base64.b64encode(source).decode()}"
    words = ", ".join(data["words"])
    # "<" is escaped, so that no sentence can end the element that contains it.
    inlined = json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="generator" content="stelmo {__version__}">
<title>The meanings of {html.escape(words)}</title>
<style>{_site("style.css")}{_site("views.css")}</style>
<script type="importmap">{json.dumps({"imports": modules})}</script>
<script>/* {_site("vendor/d3.LICENSE").strip()} */
{_site("vendor/d3.min.js")}</script>
</head>
<body class="saved">
<main></main>
<script type="application/json" id="data">{inlined}</script>
<script type="module">import "{START}";</script>
</body>
</html>
"""


def _modules() -> Iterator[str]:
    """The first module and all that it imports, directly or not."""
    waiting, seen = [START], {START}
    while waiting:
        name = waiting.pop()
        yield name
        found = {match[1] for match in _IMPORT.finditer(_site(name))} - seen
        seen |= found
        waiting += sorted(found)


def _site(name: str) -> str:
    return (SITE / name).read_text(encoding="utf-8")
