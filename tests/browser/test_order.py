"""What comes too early, too late or not at all: answers, pauses in typing, clicks; and addresses typed by hand."""

import csv
import io
from xml.etree import ElementTree

import pytest
from browser.corpus import BANKS

OWN = "We sat near the bank of the river."


class Held:
    """A route whose requests wait until they are released, in any order."""

    def __init__(self, page, pattern, only=lambda request: True):
        self.page, self.routes = page, []
        page.route(pattern, lambda route: self.routes.append(route) if only(route.request) else route.fallback())

    def wait(self, count=1):
        for _ in range(500):
            if len(self.routes) >= count:
                return
            self.page.wait_for_timeout(20)
        raise AssertionError(f"{len(self.routes)} requests; expected {count}")

    def release(self, count=1):
        self.wait(count)
        for _ in range(count):
            self.routes.pop(0).fallback()


@pytest.fixture
def bank(page, expect):
    page.goto("/#meanings?word=bank&groups=2")
    expect(page.locator(".dot")).to_have_count(BANKS)
    return page


def test_what_was_typed_before_leaving_a_view_does_not_change_the_next_one(page, expect):
    page.goto("/#neighbours")
    page.locator(".contextual li").first.wait_for()
    page.get_by_label("Sentences").press_sequentially("x")
    page.evaluate("location.hash = '#compare'")
    page.locator(".heatmap rect").first.wait_for()
    page.wait_for_timeout(500)
    assert page.url.endswith("#compare")
    expect(page.locator("h1")).to_have_text("Do two words mean the same?")


def test_typed_sentences_stay_when_a_layer_is_chosen_at_once(page, expect):
    page.goto("/#compare?a=the bank.&b=a river bank.")
    page.locator(".heatmap rect").first.wait_for()
    page.evaluate("""() => {
        const first = document.querySelector(".pair input");
        first.focus();
        first.select();
        document.execCommand("insertText", false, "a vault");
        const layer = document.querySelector(".choice input");
        layer.focus();
        layer.click();
    }""")
    expect(page.locator(".row-names text")).to_have_text(["a", "vault"])
    expect(page.get_by_label("First sentence")).to_have_value("a vault")


def test_typed_text_stays_when_a_word_of_the_old_text_is_clicked(page, expect):
    page.goto("/#neighbours?text=the bank of the river.&word=1")
    page.locator(".contextual li").first.wait_for()
    held = Held(page, "**/v1/tokenize")
    page.get_by_label("Sentences").fill("a vault near the river")
    held.wait()
    page.locator(".tokens").get_by_role("button", name="river").click()
    held.release()
    expect(page.locator(".tokens button").nth(1)).to_have_text("vault")
    expect(page.get_by_label("Sentences")).to_have_value("a vault near the river")


def test_a_word_being_typed_is_not_overwritten_when_a_sentence_lands(bank, expect):
    bank.get_by_label("Type a sentence with bank").fill(OWN)
    box = bank.get_by_role("combobox", name="A word")
    box.fill("riv")
    expect(bank.get_by_label("Your sentence")).to_be_visible()
    expect(box).to_have_value("riv")


def test_suggestions_that_come_after_enter_stay_closed(bank, expect):
    held = Held(bank, "**/v1/words?prefix*")
    box = bank.get_by_role("combobox", name="A word")
    box.fill("river")
    held.wait()
    box.press("Enter")
    with bank.expect_response("**/v1/words?prefix*"):
        held.release()
    expect(bank.locator(".lede")).to_contain_text("uses of “river”")
    expect(bank.locator(".suggestions")).to_be_hidden()
    expect(box).to_have_attribute("aria-expanded", "false")


def test_an_answer_to_earlier_sentences_does_not_replace_that_of_the_address(page, expect):
    page.goto("/#compare?a=the bank.&b=a river bank.")
    expect(page.locator(".row-names text")).to_have_count(3)
    held = Held(page, "**/v1/similarity")
    page.evaluate("location.hash = '#compare?a=a vault was here.&b=a river bank.'")
    held.wait()
    page.go_back()
    expect(page.get_by_label("First sentence")).to_have_value("the bank.")
    held.release()
    held.release()
    expect(page.locator(".row-names text")).to_have_text(["the", "bank", "."])


def test_sentences_that_are_typed_again_are_shown_without_the_request_for_them(page, expect):
    page.goto("/#compare?a=the bank.&b=a river bank.")
    page.locator(".heatmap rect").first.wait_for()
    first = page.get_by_label("First sentence")
    first.fill("")
    expect(page.locator(".status")).to_have_text("Type two sentences.")
    first.fill("the bank.")
    expect(page.locator(".heatmap")).to_be_visible()
    expect(page.locator(".status")).to_have_text("")


def test_a_word_chosen_while_the_layers_load_is_the_one_that_stays(chromium, address, expect):
    with chromium.new_context(base_url=address, viewport={"width": 1280, "height": 900}) as context:
        page = context.new_page()
        page.goto("/#meanings?word=bank&mix=1")
        expect(page.locator(".dot")).to_have_count(BANKS)
        held = Held(page, "**/v1/map")
        page.get_by_role("button", name="Play").click()
        held.wait(3)
        page.evaluate("location.hash = '#meanings?word=river&mix=1'")
        held.wait(4)
        reference = held.routes.pop()
        held.release(3)
        page.wait_for_timeout(300)
        page.unroute("**/v1/map")
        reference.fallback()
        expect(page.locator(".lede")).to_contain_text("uses of “river”")
        page.wait_for_timeout(2500)  # longer than one layer is shown
        expect(page.locator(".dot")).to_have_count(4)
        expect(page.locator(".caption").first).to_be_hidden()


def test_nothing_can_be_played_or_saved_before_there_is_a_map(page, expect):
    held = Held(page, "**/v1/map")
    page.goto("/#meanings?word=bank")
    held.wait()
    page.get_by_role("button", name="Play").click()
    expect(page.get_by_role("button", name="CSV", exact=True)).to_be_hidden()
    held.release()
    held.release()
    expect(page.locator(".dot")).to_have_count(BANKS)
    expect(page.get_by_role("button", name="CSV", exact=True)).to_be_visible()


def test_layers_that_cannot_be_loaded_are_said_to_be_missing(bank, expect, provoked):
    provoked.append("net::ERR_FAILED")
    bank.route("**/v1/map", lambda route: route.abort())
    bank.get_by_role("button", name="Play").click()
    expect(bank.locator(".meanings > .status")).to_contain_text("Is stelmo still running?")


def test_a_word_is_asked_for_again_after_a_failure(bank, expect, provoked):
    provoked.append("net::ERR_FAILED")
    bank.route("**/v1/map", lambda route: route.abort())
    bank.evaluate("location.hash = '#meanings?word=river&groups=2'")
    expect(bank.locator(".meanings > .status")).to_contain_text("Is stelmo still running?")
    bank.unroute("**/v1/map")
    bank.evaluate("location.hash = '#meanings?groups=2&word=river'")
    expect(bank.locator(".lede")).to_contain_text("uses of “river”")


def test_a_page_that_could_not_load_the_model_tries_again(page, expect, provoked):
    provoked.append("net::ERR_FAILED")
    page.route("**/v1/models", lambda route: route.abort())
    page.goto("/#guess")
    expect(page.locator(".status")).to_contain_text("Is stelmo still running?")
    page.unroute("**/v1/models")
    page.evaluate("location.hash = '#guess?text=the bank of the river.&word=1'")
    expect(page.locator(".both li").first).to_be_visible()


def test_half_an_answer_is_an_error(page, expect):
    page.route("**/v1/guess", lambda route: route.fulfill(status=200, body='{"forward": ['))
    page.goto("/#guess")
    expect(page.locator(".status[data-kind=failed]")).to_contain_text("The answer of the server is incomplete.")


def test_learned_weights_that_cannot_be_loaded_are_an_error(page, expect, provoked):
    provoked.append("net::ERR_FAILED")
    page.route("**/v1/tasks", lambda route: route.fulfill(json=[]))
    page.route("**/learned.json", lambda route: route.abort())
    page.goto("/#layers")
    expect(page.locator(".status[data-kind=failed]")).to_contain_text("Is stelmo still running?")


def drag(page, value):
    """The first slider is moved and not yet let go."""
    page.get_by_role("slider").first.evaluate(
        "(input, value) => { input.value = value; input.dispatchEvent(new Event('input')); }", value
    )


def test_a_word_whose_first_map_is_drawn_while_dragging_gets_its_groups(page, expect):
    page.goto("/#meanings?word=river&groups=2")
    expect(page.locator(".group")).to_have_count(2)
    held = Held(page, "**/v1/map")
    page.get_by_role("slider").nth(1).press("End")
    held.wait()
    page.locator(".title .chip", has_text="bank").click()
    drag(page, "0.3")
    held.release()  # of river
    held.release()  # what sets the scale of bank
    held.wait()
    page.get_by_role("slider").first.dispatch_event("change")
    page.unroute("**/v1/map")
    held.release()
    expect(page.locator(".lede")).to_contain_text("of “bank”, in 2 groups")


def test_the_reading_of_a_pair_follows_the_layer(page, expect):
    page.goto("/#compare?a=the bank.&b=a river bank.&layer=0")
    page.locator(".heatmap rect").first.wait_for()
    page.locator("svg.heatmap").press("ArrowRight")
    expect(page.locator(".readout")).to_contain_text("the and a on layer 0")
    page.get_by_role("radio", name="1").press("Space")
    expect(page.locator(".readout")).to_contain_text("the and a on layer 1")


def test_a_tapped_pair_stays_readable(chromium, address, expect):
    with chromium.new_context(
        base_url=address, viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True
    ) as context:
        tab = context.new_page()
        tab.goto("/#compare?a=the bank.&b=a river bank.&layer=0")
        tab.locator(".cells rect").nth(6).tap()
        expect(tab.locator(".readout")).to_have_text("bank and bank on layer 0: 1.00")


@pytest.mark.parametrize("layer", ["-1", "1.5", "9", "x"])
def test_a_layer_that_does_not_exist_means_the_top_layer(page, expect, layer):
    page.goto(f"/#compare?a=the bank.&b=a river bank.&layer={layer}")
    expect(page.locator(".cells rect")).to_have_count(3 * 4)
    expect(page.get_by_role("radio", name="2")).to_be_checked()


@pytest.mark.parametrize("hash", ["#constructor", "#main", "#nothing"])
def test_an_unknown_view_means_the_first_one(page, expect, hash):
    page.goto(f"/{hash}")
    expect(page.locator(".dot")).to_have_count(BANKS)


def test_a_question_mark_in_an_address_typed_by_hand_is_text(page, expect):
    page.goto("/#guess?text=is the bank here?&word=2")
    expect(page.locator(".tokens button[aria-pressed=true]")).to_have_text("bank")
    expect(page.get_by_role("textbox")).to_have_value("is the bank here?")


def test_the_skip_link_keeps_the_address(bank, expect):
    before = bank.url
    bank.get_by_role("link", name="Skip to content").press("Enter")
    expect(bank.locator("main")).to_be_focused()
    assert bank.url == before


def test_keys_of_the_browser_are_left_to_it(bank):
    drawing = bank.locator("svg.scatter").first
    drawing.press("ArrowRight")
    before = drawing.get_attribute("aria-activedescendant")
    prevented = """node => ["ArrowLeft", "ArrowDown", "+", "0"].map(key => !node.dispatchEvent(
        new KeyboardEvent("keydown", {key, altKey: true, bubbles: true, cancelable: true})))"""
    assert drawing.evaluate(prevented) == [False] * 4
    assert drawing.get_attribute("aria-activedescendant") == before
    assert bank.evaluate("document.querySelector('svg.scatter').__zoom.k") == 1


def test_the_focus_stays_on_a_sentence_that_is_chosen_from_a_list(bank, expect):
    bank.get_by_label("Search the sentences").fill("the water")
    line = bank.locator(".found .line").nth(1)
    line.press("Enter")
    expect(bank.get_by_label("Chosen use")).to_be_visible()
    expect(line).to_be_focused()


def test_the_focus_stays_in_the_panel_and_then_returns_to_the_map(bank, expect):
    bank.locator(".groups .line").first.click()
    panel = bank.get_by_label("Chosen use")
    panel.locator(".near .line").nth(1).press("Enter")
    expect(panel.get_by_role("button", name="Close")).to_be_focused()
    bank.keyboard.press("Enter")
    expect(panel).to_be_hidden()
    expect(bank.locator("svg.scatter").first).to_be_focused()


def test_the_page_works_where_storage_is_blocked(page, expect):
    page.add_init_script("""for (const name of ["localStorage", "sessionStorage"]) {
        Object.defineProperty(window, name, {get() { throw new DOMException("denied", "SecurityError"); }});
    }""")
    page.goto("/#meanings?word=bank")
    expect(page.locator(".dot")).to_have_count(BANKS)
    page.get_by_role("button", name="Colours").click()
    expect(page.get_by_role("button", name="Colours: Light")).to_be_visible()
    page.get_by_role("button", name="Colours").click()
    expect(page.get_by_role("button", name="Colours: Dark")).to_be_visible()


def test_a_link_that_cannot_be_copied_is_said_not_to_be(bank, expect):
    bank.evaluate("Object.defineProperty(navigator, 'clipboard', {value: undefined})")
    bank.get_by_role("button", name="Copy link").click()
    expect(bank.get_by_role("button", name="Not copied")).to_be_visible()
    expect(bank.get_by_role("button", name="Copy link")).to_be_visible()


def test_control_characters_of_a_corpus_do_not_break_the_picture(page, expect):
    def with_controls(route):
        answer = route.fetch().json()
        for use in answer["uses"]:
            use["tokens"] = [*use["tokens"], "\x01\x1b"]
        route.fulfill(json=answer)

    page.route("**/v1/map", with_controls)
    page.goto("/#meanings?word=bank")
    expect(page.locator(".dot")).to_have_count(BANKS)
    saved = {}
    for kind in ("SVG", "PNG"):
        with page.expect_download() as download:
            page.get_by_role("button", name=kind, exact=True).click()
        saved[kind] = download.value.path().read_bytes()
    ElementTree.fromstring(saved["SVG"])
    assert len(saved["PNG"]) > 5000  # a blank sheet takes less


def test_mixes_of_models_of_different_depth_share_a_table(page, expect):
    runs = [
        {
            "name": f"run{depth}",
            "task": "ner",
            "outputs": [{"placement": "input", "weights": [1 / depth] * depth, "gamma": 1}],
        }
        for depth in (2, 3)
    ]
    page.route("**/v1/tasks", lambda route: route.fulfill(json=runs))
    page.goto("/#layers")
    expect(page.locator("tbody tr")).to_have_count(2)
    rows = [row.locator("th, td").all_inner_texts() for row in page.locator("tbody tr").all()]
    assert [row[3:7] for row in rows] == [["0.50", "0.50", "", "1.00"], ["0.33", "0.33", "0.33", "1.00"]]
    with page.expect_download() as download:
        page.get_by_role("button", name="CSV", exact=True).click()
    saved = list(csv.DictReader(io.StringIO(download.value.path().read_text())))
    assert [row["s2"] for row in saved] == ["", str(1 / 3)]
