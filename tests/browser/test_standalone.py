"""The page as one file without a server, and as a cell of a notebook."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import tiny
from browser.corpus import BANKS, MARKUP, SENTENCES

import stelmo
from stelmo.explore import index, standalone

DOCUMENT = Path(__file__).parents[2] / "docs" / "explorer.md"
# In a process of its own: playwright's event loop runs in this one.
EXECUTE = """
import sys, nbclient, nbformat
notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(sys.argv[1])])
nbclient.NotebookClient(notebook, timeout=300, kernel_name="python3").execute()
nbformat.write(notebook, sys.argv[2])
"""


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("saved")
    found = index.build(tiny.model(), SENTENCES, folder / "uses")
    standalone.page(found, ["bank", "River"], model=tiny.model(), name="tiny", credit="sentences about banks").save(
        folder / "page.html"
    )
    return folder / "page.html"


@pytest.fixture
def tab(chromium, problems):
    """A tab without any server; whatever is asked of a network is noted."""
    context = chromium.new_context(viewport={"width": 1280, "height": 1000}, reduced_motion="reduce", offline=True)
    context.set_default_timeout(30_000)
    page = context.new_page()
    asked = []
    page.on("console", lambda message: problems.append(message.text) if message.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    yield page
    context.close()
    assert problems == []
    assert [url for url in asked if url.startswith(("http", "ws"))] == []


def test_a_saved_page_shows_its_words_on_every_layer(tab, saved, expect):
    tab.goto(saved.as_uri())
    expect(tab.locator(".dot")).to_have_count(BANKS)
    expect(tab.locator("h1")).to_have_text("The meanings of bank")
    expect(tab.locator(".credit")).to_contain_text("model tiny; sentences about banks")
    tab.get_by_role("radio", name="0").check()
    expect(tab.locator(".trust p").first).to_contain_text("All uses are one point")
    tab.get_by_role("radio", name="Mean").check()
    expect(tab.locator(".story").first).to_contain_text("mean of all layers")
    tab.get_by_label("Words to try").get_by_role("button", name="river").click()
    expect(tab.locator("h1")).to_have_text("The meanings of river")
    expect(tab.locator(".lede")).to_contain_text("4 uses of “river”")
    tab.go_back()
    expect(tab.locator(".dot")).to_have_count(BANKS)


def test_it_has_what_needs_no_model(tab, saved, expect):
    tab.goto(f"{saved.as_uri()}#meanings?word=bank&mix=1")
    expect(tab.locator(".dot")).to_have_count(BANKS)
    tab.locator(".groups .line").first.click()
    panel = tab.get_by_label("Chosen use")
    expect(panel.locator(".near .line")).to_have_count(5)
    panel.get_by_role("button", name="Close").click()
    tab.get_by_label("Search the sentences").fill("alert(1)")
    expect(tab.locator(".found .line")).to_contain_text(["<script>alert(1)</script>"])
    with tab.expect_download() as download:
        tab.get_by_role("button", name="JSON", exact=True).click()
    assert MARKUP.split() in [use["tokens"] for use in json.loads(download.value.path().read_text())["uses"]]
    tab.get_by_label("Show a second map").check()
    expect(tab.locator(".dot")).to_have_count(2 * BANKS)
    for absent in (".own-sentence", ".sliders", "input.word"):
        expect(tab.locator(absent)).to_have_count(0)
    tab.get_by_role("button", name="Play").click()
    expect(tab.locator(".caption").first).to_contain_text("Layer 0")
    tab.keyboard.press("Escape")
    expect(tab.locator(".caption").first).to_be_hidden()


def test_the_points_are_where_the_server_would_draw_them(tab, page, saved, expect, places, numbers):
    page.goto("/#meanings?word=bank&mix=2")
    page.set_viewport_size({"width": 1280, "height": 1000})
    expect(page.locator(".dot")).to_have_count(BANKS)
    tab.goto(f"{saved.as_uri()}#meanings?word=bank&mix=2")
    expect(tab.locator(".dot")).to_have_count(BANKS)
    assert list(places(tab)) == list(places(page))
    size = "[...document.querySelectorAll('svg.scatter')][0].getBoundingClientRect().toJSON()"
    served, filed = page.evaluate(size), tab.evaluate(size)
    assert (served["width"], served["height"]) == (filed["width"], filed["height"])
    for filed, served in zip(numbers(places(tab).values()), numbers(places(page).values()), strict=True):
        assert filed == pytest.approx(served, abs=0.5)  # the file is rounded to four decimals


def test_a_notebook_shows_the_same_map_in_a_cell(tab, expect):
    shown = standalone.show(tiny.model(), SENTENCES, "bank")
    tab.set_content(f"<h1>A notebook</h1><div id='cell'>{shown._repr_html_()}</div>")
    cell = tab.frame_locator("iframe")
    expect(cell.locator(".dot")).to_have_count(BANKS)
    cell.get_by_role("radio", name="0").check()
    expect(cell.locator(".trust p").first).to_contain_text("All uses are one point")
    cell.locator(".groups .line").first.click()
    expect(cell.get_by_label("Chosen use")).to_be_visible()
    expect(cell.get_by_role("button", name="Copy link")).to_have_count(0)  # a cell has no address
    expect(tab.locator("h1").first).to_have_text("A notebook")


@pytest.mark.long
def test_jupyter_shows_the_documented_cell(tab, expect, tmp_path):
    pytest.importorskip("nbclient", reason="nbclient is not installed: pip install 'stelmo[dev]'")
    pytest.importorskip("ipykernel", reason="ipykernel is not installed: pip install 'stelmo[dev]'")
    (cell,) = (code for code in re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(), re.S) if "show(" in code)
    notebook = tmp_path / "bank.ipynb"
    environment = os.environ | {"PYTHONPATH": str(Path(stelmo.__file__).parents[1])}
    subprocess.run([sys.executable, "-c", EXECUTE, cell, notebook], env=environment, check=True)
    (output,) = json.loads(notebook.read_text())["cells"][0]["outputs"]
    tab.set_content("".join(output["data"]["text/html"]))
    shown = tab.frame_locator("iframe")
    expect(shown.locator("h1")).to_have_text("The meanings of bank")
    expect(shown.locator(".dot")).to_have_count(3)
    assert all(dot.bounding_box()["width"] > 0 for dot in shown.locator(".dot").all())


def test_axe_finds_nothing_serious_in_a_saved_page(tab, saved, expect, serious):
    tab.goto(saved.as_uri())
    expect(tab.locator(".dot")).to_have_count(BANKS)
    tab.locator(".groups .line").first.click()
    expect(tab.get_by_label("Chosen use")).to_be_visible()
    assert serious(tab) == []


def test_its_points_can_be_coloured_by_a_column_of_the_data(tab, saved, expect):
    tab.goto(f"{saved.as_uri()}#meanings?word=bank&colour=topic")
    expect(tab.locator(".dot")).to_have_count(BANKS)
    expect(tab.locator(".group h3 bdi")).to_have_text(["water", "money"])
    tab.get_by_label("Colour by").select_option("group")
    expect(tab.locator(".lede")).not_to_contain_text("coloured by")


def test_a_projection_that_it_does_not_have_means_pca(tab, saved, expect):
    tab.goto(f"{saved.as_uri()}#meanings?word=bank&method=tsne")
    expect(tab.locator(".dot")).to_have_count(BANKS)
    expect(tab.get_by_role("button", name="Copy link")).to_be_visible()
