"""The real page in a real browser: the application with a tiny model and index, and chromium driven by playwright.

Both live as long as a test file: playwright's event loop must not stay with the tests of other rooms.
"""

import os
import shutil
import threading
from itertools import chain
from pathlib import Path

import pytest
import tiny
from browser.corpus import SENTENCES

CHROMIUM = os.environ.get("STELMO_CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
PATIENCE = 30_000  # milliseconds for an answer: a busy machine is slow, and no test is timed

AXE = Path(__file__).parent / "vendor" / "axe.min.js"

MIXES = {"stelmo": 1, "task": "ner", "outputs": [{"placement": "input", "weights": [0.2, 0.5, 0.3], "gamma": 1.5}]}


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    """Of a server that holds the index of TEXT and one task run."""
    uvicorn = pytest.importorskip("uvicorn", reason="the service is not installed: pip install 'stelmo[serve]'")
    from stelmo.explore import index
    from stelmo.serve.app import app
    from stelmo.store.runs import Mixes

    model = tiny.model()
    uses = index.build(model, SENTENCES, tmp_path_factory.mktemp("index") / "uses")
    made = app(
        model, index=uses, tasks={"first": Mixes.model_validate(MIXES)}, name="tiny", credit="sentences about banks"
    )
    server = uvicorn.Server(uvicorn.Config(made, port=0, log_level="warning", ws="none"))
    started = threading.Event()
    startup = server.startup

    async def told(sockets=None):
        await startup(sockets)
        started.set()

    server.startup = told
    thread = threading.Thread(target=server.run)
    thread.start()
    assert started.wait(60)
    port = server.servers[0].sockets[0].getsockname()[1]
    yield f"http://127.0.0.1:{port}/"
    server.should_exit = True
    thread.join()


@pytest.fixture(scope="module")
def chromium():
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: pip install 'stelmo[dev]'")
    if CHROMIUM is None:
        pytest.skip("chromium is not there: apt-get install chromium, or name one by STELMO_CHROMIUM")
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def problems():
    """What the browser complained of during a test; a test that provokes complaints empties it."""
    return []


@pytest.fixture
def provoked():
    """Parts of complaints that a test provokes, however often and however late the browser reports them."""
    return []


@pytest.fixture
def page(chromium, address, problems, provoked):
    """An empty tab. After the test nothing may have gone wrong in it, nor been asked of another host."""
    context = chromium.new_context(base_url=address, viewport={"width": 1280, "height": 1000}, reduced_motion="reduce")
    context.set_default_timeout(PATIENCE)
    tab = context.new_page()
    asked = []
    tab.on("console", lambda message: problems.append(message.text) if message.type in ("error", "warning") else None)
    tab.on("pageerror", lambda error: problems.append(str(error)))
    tab.on("dialog", lambda dialog: problems.append(dialog.message))
    tab.on("request", lambda request: asked.append(request.url))
    yield tab
    context.close()
    assert [problem for problem in problems if not any(part in problem for part in provoked)] == []
    assert [url for url in asked if not url.startswith((address, "data:", "blob:"))] == []


@pytest.fixture
def serious():
    """What axe-core finds on a page, of the two worst kinds."""

    def find(page):
        page.evaluate(f"() => {{ {AXE.read_text()} }}")  # not as an element: the page's policy forbids foreign scripts
        found = page.evaluate("axe.run(document, {resultTypes: ['violations']}).then(result => result.violations)")
        return [(one["id"], one["nodes"][0]["html"]) for one in found if one["impact"] in ("serious", "critical")]

    return find


@pytest.fixture
def expect(chromium):
    """Playwright's assertions, which wait until they hold."""
    from playwright.sync_api import expect

    expect.set_options(timeout=PATIENCE)
    return expect


@pytest.fixture
def places():
    """Where the points of a map are on the screen, by the id of their use."""

    def read(page, map=0):
        dots = page.locator("figure.map").nth(map).locator(".dot")
        return dict(dots.evaluate_all("dots => dots.map(dot => [dot.id, dot.getAttribute('transform')])"))

    return read


@pytest.fixture
def numbers():
    """translate(1.5,2) → (1.5, 2.0) for all of them."""

    def read(transforms):
        pairs = (transform[len("translate(") : -1].split(",") for transform in transforms)
        return [tuple(map(float, chain(pair))) for pair in pairs]

    return read
