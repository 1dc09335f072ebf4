"""The other views, and what all views share: keys, phone, colours, waiting, refusals, accessibility."""

from pathlib import Path

import pytest
from browser.corpus import ARABIC

RESULTS = Path(__file__).parents[2] / "docs" / "results.md"
VIEWS = {
    "meanings": ".dot",
    "neighbours": ".contextual li",
    "compare": ".heatmap rect",
    "guess": ".both li",
    "layers": ".share",
}
every_view = pytest.mark.parametrize("view", VIEWS)


def opened(page, view, query=""):
    page.goto(f"/#{view}{query}")
    page.locator(VIEWS[view]).first.wait_for()
    return page


def test_a_clicked_word_has_neighbours_of_both_kinds(page, expect):
    opened(page, "neighbours", "?text=the bank of the river.&word=1")
    expect(page.locator(".tokens button[aria-pressed=true]")).to_have_text("bank")
    page.locator(".tokens").get_by_role("button", name="river").click()
    expect(page.locator(".static .note b")).to_have_text("river")
    assert page.locator(".static li").count() > 1
    assert page.locator(".contextual mark").count() > 3
    assert "word=4" in page.url
    figures = [float(text) for text in page.locator(".contextual .figure").all_inner_texts()]
    assert figures == sorted(figures, reverse=True)


def test_neighbours_can_be_kept_to_the_same_word(page, expect):
    opened(page, "neighbours", "?text=the bank of the river.&word=1")
    page.get_by_label("Only uses of the same word").check()
    expect(page.locator(".contextual mark").filter(has_not_text="bank")).to_have_count(0)
    assert set(page.locator(".contextual mark").all_inner_texts()) <= {"bank", "<b>bank</b>"}
    assert "only=1" in page.url


def test_typed_text_becomes_words_that_arrow_keys_reach(page, expect):
    opened(page, "neighbours")
    page.get_by_label("Sentences").fill("a <i>river</i> bank")
    words = page.locator(".tokens button")
    expect(words.last).to_have_text("bank")
    assert "<i>" in "".join(words.all_inner_texts())
    assert page.locator(".tokens i").count() == 0
    words.first.focus()
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Enter")
    expect(page.locator(".static .note b")).to_have_text("bank")


def test_arabic_words_run_from_right_to_left(page):
    opened(page, "neighbours", f"?text={ARABIC}&word=0")
    left = [word.bounding_box()["x"] for word in page.locator(".tokens button").all()[:3]]
    assert left == sorted(left, reverse=True)


def test_every_pair_of_words_has_a_square_on_every_layer(page, expect):
    opened(page, "compare", "?a=the bank.&b=a river bank.&layer=0")
    expect(page.locator(".cells rect")).to_have_count(3 * 4)
    expect(page.locator(".cells text").nth(6)).to_have_text("1.00")
    other = page.locator(".cells text").first
    before = other.text_content()
    asked = []
    page.route("**/v1/**", lambda route: asked.append(route.request.url))
    page.get_by_role("radio", name="2").check()
    expect(other).not_to_have_text(before)
    assert asked == []
    assert "layer=2" in page.url


def test_arrow_keys_read_the_squares(page, expect):
    opened(page, "compare", "?a=the bank.&b=a river bank.&layer=0")
    page.locator("svg.heatmap").focus()
    for key in ("ArrowRight", "ArrowDown", "ArrowRight", "ArrowRight"):
        page.keyboard.press(key)
    expect(page.locator(".readout")).to_have_text("bank and bank on layer 0: 1.00")


def test_a_gap_is_guessed_from_both_sides(page, expect):
    opened(page, "guess", "?text=the bank of the river.&word=1")
    page.locator(".tokens").get_by_role("button", name="river").click()
    for way in ("forward", "both", "backward"):
        shares = [float(text.strip("<% ")) for text in page.locator(f".{way} .figure").all_inner_texts()]
        assert len(shares) > 3
        assert shares == sorted(shares, reverse=True)
    expect(page.locator(".both .own .what")).to_have_text("river")


def test_a_tasks_weights_lead_to_their_map(page, expect):
    opened(page, "layers")
    expect(page.locator(".mix .share")).to_have_count(3)
    expect(page.locator("tbody tr")).to_contain_text("ner")
    page.get_by_role("link", name="show this mix").click()
    page.locator(".dot").first.wait_for()
    shares = [float(page.get_by_role("slider").nth(n).input_value()) for n in range(4)]
    assert shares == pytest.approx([0.2, 0.5, 0.3, 1.5])


def test_without_task_runs_the_page_shows_ours_and_says_how_to_show_others(page, expect):
    page.route("**/v1/tasks", lambda route: route.fulfill(json=[]))
    page.goto("/#layers")
    expect(page.locator(".about")).to_contain_text("docs/results.md")
    page.get_by_text("Show your own").click()
    expect(page.locator(".about pre")).to_contain_text("stelmo explore --task RUN")
    rows = [row.split("\t") for row in page.locator("tbody tr").all_inner_texts()]
    assert [[row[0], row[2], *row[3:7]] for row in rows] == documented_weights()


def documented_weights():
    """The rows of Figure 2 in docs/results.md."""
    table = RESULTS.read_text().split("## Figure 2")[1].split("![")[0]
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in table.splitlines()
        if "put, " in line or "put |" in line
    ]
    return [[*row[0].split(", "), *row[1:]] for row in rows]


def test_a_busy_server_is_asked_again(page, problems):
    answers = iter([{"status": 429, "headers": {"Retry-After": "0"}, "json": {"detail": "busy"}}])

    def refuse_once(route):
        answer = next(answers, None)
        return route.fulfill(**answer) if answer else route.fallback()

    page.route("**/v1/guess", refuse_once)
    opened(page, "guess")
    assert ["429" in problem for problem in problems] == [True]
    problems.clear()


def test_a_refusal_is_shown_in_the_servers_words(page, expect, provoked):
    provoked.append("422")
    page.route("**/v1/guess", lambda route: route.fulfill(status=422, json={"detail": "too <b>long</b>"}))
    page.goto("/#guess")
    expect(page.locator(".status[data-kind=failed]")).to_have_text("Error: Too <b>long</b>.")


def test_a_server_with_a_token_is_given_it(page, provoked):
    provoked.append("401")

    def guarded(route):
        known = route.request.headers.get("authorization") == "Bearer opensesame"
        return route.fallback() if known else route.fulfill(status=401, json={"detail": "the token is missing"})

    page.route("**/v1/**", guarded)
    page.goto("/#layers")
    page.get_by_label("Token").fill("opensesame")
    page.get_by_role("button", name="Use this token").click()
    page.locator(".share").first.wait_for()
    assert "opensesame" not in page.url


def test_a_server_that_is_gone_is_said_to_be_gone(page, expect, provoked):
    provoked.append("net::ERR_FAILED")
    opened(page, "compare")
    page.route("**/v1/**", lambda route: route.abort())
    page.get_by_label("First sentence").fill("the river")
    expect(page.locator(".status[data-kind=failed]")).to_contain_text("Is stelmo still running?")


def test_tab_and_enter_lead_through_the_views(page, expect):
    opened(page, "meanings")
    for view in ("Neighbours", "Layers"):
        while page.evaluate("document.activeElement.textContent") != view:
            page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        expect(page.get_by_role("link", name=view)).to_have_attribute("aria-current", "page")


def test_colours_follow_the_system_until_the_button_is_pressed(page):
    page.emulate_media(color_scheme="dark")
    opened(page, "layers")
    ground = "getComputedStyle(document.body).backgroundColor"
    dark = page.evaluate(ground)
    page.get_by_role("button", name="Colours").click()
    light = page.evaluate(ground)
    assert dark != light
    page.reload()
    page.locator(".share").first.wait_for()
    assert page.evaluate(ground) == light


@pytest.mark.parametrize("width", [390, 320])
@every_view
def test_a_phone_needs_no_scrolling_sideways(page, view, width):
    page.set_viewport_size({"width": width, "height": 740})
    opened(page, view)
    assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("view", ["neighbours", "guess", "compare", "meanings"])
def test_a_long_word_is_wrapped(page, expect, view, provoked):
    provoked.append("404")  # the index has no such word
    word = "Donaudampfschifffahrtselektrizitätenhauptbetriebswerk" * 2
    page.set_viewport_size({"width": 320, "height": 640})
    queries = {"compare": f"?a={word}&b=a {word}", "meanings": f"?word={word}"}
    page.goto(f"/#{view}{queries.get(view, f'?text=the {word} .&word=1')}")
    shown = {"meanings": ".status[data-kind=empty]"}.get(view, VIEWS[view])
    page.locator(shown).first.wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") <= 320


@pytest.mark.parametrize(("view", "answer"), [("neighbours", ".contextual li"), ("guess", ".both li")])
def test_the_last_answer_stays_while_the_text_is_edited(page, expect, view, answer):
    opened(page, view, "?text=the bank of the river.&word=1")
    before = page.locator(answer).all_inner_texts()
    area = page.get_by_role("textbox")
    area.fill("no such word here")
    expect(page.locator(".status").last).to_contain_text("Choose a word")
    assert page.locator(answer).all_inner_texts() == before
    area.fill("a bank was muddy")  # the word that was chosen is in the text again
    expect(page.locator(".tokens [aria-pressed=true]")).to_have_text("bank")
    expect(page.locator(".stale")).to_have_count(0)


def luminance(rgb):
    parts = [part / 255 for part in rgb]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_figure_can_be_read_on_its_cell(page, scheme):
    page.emulate_media(color_scheme=scheme)
    opened(page, "compare", "?a=the bank of the river.&b=a bank of the river.&layer=0")
    cells = page.locator(".cells g").evaluate_all("""cells => cells.map(cell => {
        const numbers = (colour) => colour.match(/[\\d.]+/g).slice(0, 3).map(Number);
        const rect = getComputedStyle(cell.querySelector("rect"));
        const text = getComputedStyle(cell.querySelector("text"));
        const ground = getComputedStyle(document.body).backgroundColor;
        return [numbers(rect.fill), Number(rect.fillOpacity), numbers(text.fill), numbers(ground)];
    })""")
    assert max(opacity for _, opacity, _, _ in cells) == 1.0  # the same word is as dark as a cell can be
    for fill, opacity, ink, ground in cells:
        behind = [opacity * one + (1 - opacity) * other for one, other in zip(fill, ground, strict=True)]
        low, high = sorted([luminance(ink), luminance(behind)])
        assert (high + 0.05) / (low + 0.05) >= 4.5


def test_a_sentence_that_is_cut_is_said_to_be_cut(page, expect):
    opened(page, "compare", f"?a={' '.join(['bank'] * 45)}&b=a river bank.")
    expect(page.locator(".cut")).to_have_text("Only the first 40 words are compared: the first text has 45.")
    expect(page.locator(".row-names text")).to_have_count(40)
    page.get_by_label("First sentence").fill("a bank")
    expect(page.locator(".row-names text")).to_have_count(2)
    expect(page.locator(".cut")).to_be_hidden()


def test_cells_have_figures_on_a_phone(page):
    page.set_viewport_size({"width": 390, "height": 844})
    opened(page, "compare", "?a=the bank raised its interest rate today.&b=they fished from the bank of the river.")
    figures = page.locator(".cells text").all_text_contents()
    assert all(float(figure) <= 1 for figure in figures)
    assert len(figures) == 8 * 9
    assert page.evaluate("(box => box.scrollWidth <= box.clientWidth)(document.querySelector('.heat'))")
    widest = "Math.max(...[...document.querySelectorAll('.cells text')].map(one => one.getBBox().width))"
    assert page.evaluate(widest) <= page.locator(".cells rect").first.bounding_box()["width"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@every_view
def test_axe_finds_nothing_serious(page, view, scheme, serious):
    page.emulate_media(color_scheme=scheme)
    opened(page, view)
    assert serious(page) == []


def test_the_api_description_is_shown_from_local_files(page, expect):
    page.goto("/docs")
    expect(page.locator("rapi-doc")).to_contain_text("/v1/embeddings")


def test_without_an_index_the_page_says_what_to_run(page, expect, provoked):
    provoked.append("404")
    detail = "this server has no index of word uses; start it with --index DIR"
    for route in ("map", "words*"):
        page.route(f"**/v1/{route}", lambda route: route.fulfill(status=404, json={"detail": detail}))
    page.goto("/#meanings")
    expect(page.locator(".meanings > .status pre")).to_contain_text("stelmo index corpus.txt --to uses")
