"""The page's modules that know no element, run in the browser and held against an oracle in Python."""

import csv
import io
import itertools

import numpy as np
import pytest
from scipy.linalg import orthogonal_procrustes


@pytest.fixture(scope="module")
def page(chromium, address):
    """One tab for all: these functions keep nothing."""
    context = chromium.new_context(base_url=address)
    tab = context.new_page()
    tab.goto("/#layers")
    tab.locator(".share").first.wait_for()
    yield tab
    context.close()


@pytest.fixture(scope="module")
def called(page):
    """called("layout.js", "places", …) → what the function returns there."""

    def call(module, function, *arguments):
        script = "([module, name, given]) => import(`/site/${module}`).then(found => found[name](...given))"
        return page.evaluate(script, [module, function, arguments])

    return call


def shown_apart(points):
    return np.linalg.norm(points[:, None] - points[None], axis=-1)


def test_a_turned_map_is_that_of_procrustes(page):
    turned = "([from, to]) => import('/site/layout.js').then(found => from.map(found.alignment(from, to)))"
    rng = np.random.default_rng(0)
    for points, target in rng.normal(size=(5, 2, 9, 2)):
        found = np.array(page.evaluate(turned, [points.tolist(), target.tolist()]))
        middle = points - points.mean(0)
        turn, _ = orthogonal_procrustes(middle, target - target.mean(0))
        np.testing.assert_allclose(found, middle @ turn, atol=1e-9)
        np.testing.assert_allclose(shown_apart(found), shown_apart(points), atol=1e-9)


def test_any_cell_survives_the_csv(called):
    nasty = ["plain", "a,b", 'say "hi"', "two\nlines", "", "عربي", "=1+1", "\r", 0.25]
    rows = [{"first": first, "second": second} for first, second in itertools.product(nasty, nasty)]
    text = called("export.js", "csv", rows)
    expected = [{name: str(cell) for name, cell in row.items()} for row in rows]
    assert list(csv.DictReader(io.StringIO(text, newline=""))) == expected


def test_mixed_colours_are_written_as_rgb(called):
    texts = ["color(srgb 0.5 0 1)", "color(srgb 1.2 -0.1 3e-2 / 0.25)", "rgb(1, 2, 3)", "none"]
    found = [called("export.js", "inRgb", text) for text in texts]
    assert found == ["rgb(128, 0, 255)", "rgba(255, 0, 8, 0.25)", "rgb(1, 2, 3)", "none"]


def test_rows_of_a_csv_may_have_different_columns(called):
    text = called("export.js", "csv", [{"a": 1}, {"b": 2}])
    assert list(csv.DictReader(io.StringIO(text))) == [{"a": "1", "b": ""}, {"a": "", "b": "2"}]


@pytest.mark.parametrize("text", ["0", "1", "2", "mean", "0.2,0.5,0.3", "0.125,0,0.875"])
def test_a_mix_in_the_address_is_read_as_it_was_written(called, text):
    weights = called("mixes.js", "parse", text, 3)
    assert sum(weights) == pytest.approx(1)
    assert called("mixes.js", "name", weights) == text


@pytest.mark.parametrize("text", ["7", "-1", "x", "0.5,0.5", "1,1,-1", "0,0,0", "", "NaN,1,0"])
def test_an_address_that_makes_no_sense_means_the_top_layer(called, text):
    assert called("mixes.js", "parse", text, 3) == [0, 0, 1]


def test_shares_sum_to_one_and_the_others_keep_their_proportions(called):
    first, second, third = called("mixes.js", "withShare", [0.5, 0.3, 0.2], 0, 0.1)
    assert (first, second + third) == (0.1, pytest.approx(0.9))
    assert second / third == pytest.approx(1.5)
    assert called("mixes.js", "withShare", [1, 0, 0], 0, 0.4) == pytest.approx([0.4, 0.3, 0.3])


def test_distances_on_the_screen_are_those_of_the_map(called):
    points = np.random.default_rng(1).normal(size=(12, 2)) * 5
    found = np.array(called("layout.js", "places", points.tolist(), 900, 500))
    ratio = shown_apart(found)[np.triu_indices(12, 1)] / shown_apart(points)[np.triu_indices(12, 1)]
    np.testing.assert_allclose(ratio, ratio[0], rtol=1e-6)
    assert (found.min(0) > 20).all()
    assert (found.max(0) < (880, 480)).all()


def test_points_in_one_place_are_drawn_beside_each_other(called):
    found = np.array(called("layout.js", "places", [[1.0, 2.0]] * 40, 900, 500))
    apart = shown_apart(found)
    assert apart[~np.eye(40, dtype=bool)].min() > 2
    assert apart.max() < 60


def test_a_group_keeps_its_colour_when_the_groups_change_their_numbers(called, page):
    before = [[id, colour] for id, colour in enumerate([0] * 6 + [1] * 4)]
    uses = [{"id": id, "cluster": cluster} for id, cluster in enumerate([2] * 5 + [1] + [0] * 4)]
    script = "([uses, before]) => import('/site/colours.js').then(found => found.colours(uses, 3, new Map(before)))"
    assert page.evaluate(script, [uses, before]) == [1, 2, 0]


@pytest.mark.parametrize(
    ("tokens", "text"),
    [
        ('He said : " no " ( twice ) .', 'He said: "no" (twice).'),
        ("It 's Tom 's , is n't it ?", "It's Tom's, isn't it?"),
        ("ذهب الولد ، ثم عاد .", "ذهب الولد، ثم عاد."),
        ("", ""),
    ],
)
def test_tokens_are_joined_as_people_write(called, tokens, text):
    assert called("sentence.js", "plain", tokens.split()) == text


def test_uses_are_grouped_by_the_values_of_a_column(called):
    values = [*"aabbbc", "", *(f"rare{n}" for n in range(9))]
    answer = {
        "uses": [{"id": n, "cluster": 0, "columns": {"tag": value}} for n, value in enumerate(values)],
        "clusters": [],
    }
    found = called("colours.js", "byColumn", answer, "tag")
    assert [(cluster["words"], cluster["size"]) for cluster in found["clusters"]] == [
        (["b"], 3), (["a"], 2), (["c"], 1), (["no value"], 1), (["rare0"], 1), (["rare1"], 1), (["rare2"], 1),
        (["6 other values"], 6),
    ]  # fmt: skip
    assert [use["cluster"] for use in found["uses"]] == [1, 1, 0, 0, 0, 2, 3, 4, 5, 6, 7, 7, 7, 7, 7, 7]
    assert called("colours.js", "byColumn", answer, "other") == called("colours.js", "byColumn", answer, None) == answer
