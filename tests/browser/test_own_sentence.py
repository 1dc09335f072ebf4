"""What a visitor does first: types a sentence, taps a point, watches the layers, misspells a word; also on a phone."""

import pytest
from browser.corpus import BANKS

PHONES = pytest.mark.parametrize("width", [390, 320])
OWN = "We sat near the bank of the river."


@pytest.fixture
def phone(chromium, address, problems):
    """A tab with a touch screen, as wide as asked for."""
    contexts = []

    def opened(width, query="word=bank"):
        context = chromium.new_context(
            base_url=address,
            viewport={"width": width, "height": 844 if width > 350 else 640},
            has_touch=True,
            is_mobile=True,
            reduced_motion="reduce",
        )
        contexts.append(context)
        context.set_default_timeout(30_000)
        tab = context.new_page()
        tab.on("pageerror", lambda error: problems.append(str(error)))
        tab.goto(f"/#meanings?{query}")
        tab.locator(".dot").nth(BANKS - 1).wait_for()
        return tab

    yield opened
    for context in contexts:
        context.close()
    assert problems == []


def tap_point(tab, number):
    """A finger in the middle of a point."""
    dot = tab.locator("figure.map .dot").nth(number)
    box = dot.bounding_box()
    tab.touchscreen.tap(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)


def typed(page, text):
    page.get_by_label("Type a sentence with bank").fill(text)
    page.get_by_role("button", name="Show", exact=True).click()


def test_a_typed_sentence_lands_on_the_map_with_its_nearest_uses_lit(page, expect, places):
    page.goto("/#meanings?word=bank")
    expect(page.locator(".dot")).to_have_count(BANKS)
    before = places(page)
    typed(page, OWN)
    panel = page.get_by_label("Your sentence")
    expect(panel.locator(".chosen-sentence")).to_have_text(OWN)
    expect(page.locator("path.own[d]")).to_have_count(1)
    expect(panel.locator(".near .line")).to_have_count(5)
    lit = page.locator(".dot.lit").evaluate_all("dots => dots.map(dot => dot.id.split('-')[1])")
    listed = panel.locator(".near .line").evaluate_all("lines => lines.map(line => line.dataset.use)")
    assert sorted(lit) == sorted(listed)
    expect(page.locator(".links line")).to_have_count(5)
    assert places(page) == before  # the map itself does not move
    page.reload()
    expect(page.get_by_label("Your sentence").locator(".chosen-sentence")).to_have_text(OWN)


def test_a_sentence_of_the_index_lands_on_its_own_point(page, expect, numbers):
    page.goto("/#meanings?word=bank&own=the bank of the river .&mix=2")
    expect(page.locator("path.own[d]")).to_have_count(1)
    expect(page.get_by_label("Your sentence").locator(".figure").first).to_have_text("1.00")
    nearest = page.get_by_label("Your sentence").locator(".near .line").first.get_attribute("data-use")
    [[x, y]] = numbers([page.locator("path.own[d]").get_attribute("transform")])
    [[px, py]] = numbers([page.locator(f"#map0-{nearest}").get_attribute("transform")])
    assert abs(x - px) + abs(y - py) < 8  # points that hide one another are drawn beside each other


def test_a_sentence_without_the_word_offers_its_own_words(page, expect):
    page.goto("/#meanings?word=bank")
    expect(page.locator(".dot")).to_have_count(BANKS)
    typed(page, "The river flows to the sea.")
    expect(page.locator(".own-note")).to_contain_text("does not contain bank")
    page.locator(".own-note").get_by_role("button", name="river").click()
    expect(page.locator(".lede")).to_contain_text("uses of “river”")
    expect(page.get_by_label("Your sentence").locator("mark").first).to_have_text("river")


def test_a_new_layer_moves_the_typed_sentence_too(page, expect):
    page.goto(f"/#meanings?word=bank&own={OWN}&mix=2")
    star = page.locator("path.own[d]")
    expect(star).to_have_count(1)
    there = star.get_attribute("transform")
    page.get_by_role("radio", name="1").check()
    expect(star).not_to_have_attribute("transform", there)


@PHONES
def test_a_tap_shows_the_sentence_its_group_and_its_nearest_uses(phone, expect, width):
    tab = phone(width)
    tap_point(tab, 4)
    panel = tab.get_by_label("Chosen use")
    expect(panel).to_be_in_viewport()
    chosen = tab.locator(".dot.picked")
    assert f"use={chosen.get_attribute('id').removeprefix('map0-')}" in tab.url
    expect(panel.locator(".chosen-sentence")).to_have_text(chosen.get_attribute("aria-label"))
    expect(panel.locator(".near .line")).to_have_count(5)
    expect(panel.locator(".note").first).to_contain_text("roup")
    panel.get_by_role("button", name="Close").tap()
    expect(panel).to_be_hidden()


@PHONES
def test_on_a_phone_the_map_comes_first_and_the_sliders_are_in_reach(phone, width):
    tab = phone(width)
    height = tab.viewport_size["height"]
    canvas = tab.locator(".canvas").first.bounding_box()
    assert canvas["y"] < 0.45 * height
    for above in (".own-sentence", ".sliders", ".options"):
        assert tab.locator(above).first.bounding_box()["y"] >= canvas["y"] + canvas["height"]
    slider = tab.get_by_role("slider").last.bounding_box()
    assert slider["y"] + slider["height"] - canvas["y"] < height  # map and sliders together on one screen
    assert tab.evaluate("document.documentElement.scrollWidth") <= width


@PHONES
def test_typing_on_a_phone(phone, expect, width):
    tab = phone(width)
    typed(tab, OWN)
    expect(tab.get_by_label("Your sentence")).to_be_in_viewport()
    star, panel = tab.locator("path.own[d]").bounding_box(), tab.get_by_label("Your sentence").bounding_box()
    assert star["y"] >= 0
    assert star["y"] + star["height"] <= panel["y"]  # the panel does not cover where it landed
    assert tab.evaluate("document.documentElement.scrollWidth") <= width


def test_a_link_to_a_use_shows_its_panel(page, expect):
    page.goto("/#meanings?word=bank")
    use = page.locator(".groups .line").first.get_attribute("data-use")
    page.goto(f"/#meanings?word=bank&use={use}")
    page.reload()
    panel = page.get_by_label("Chosen use")
    expect(panel.locator(".near .line")).to_have_count(5)
    expect(panel.locator(".chosen-sentence")).to_have_text(page.locator(f"#map0-{use}").get_attribute("aria-label"))
    near = panel.locator(".near .line").first
    other = near.get_attribute("data-use")
    near.click()
    expect(page.locator(f"#map0-{other}.picked")).to_have_count(1)


def test_the_map_and_the_first_sentences_are_above_the_fold(page, expect):
    page.set_viewport_size({"width": 1440, "height": 900})
    page.goto("/#meanings?word=bank")
    expect(page.locator(".dot")).to_have_count(BANKS)
    for what in (".canvas", ".own-sentence", ".groups .line", ".sliders"):
        box = page.locator(what).first.bounding_box()
        assert box["y"] + box["height"] <= 900, what


def moving(chromium, address):
    """A visitor who has not asked for less motion."""
    context = chromium.new_context(base_url=address, viewport={"width": 1280, "height": 900})
    context.set_default_timeout(30_000)
    return context


def test_the_layers_are_played_at_the_start_until_a_key_is_pressed(chromium, address, expect):
    with moving(chromium, address) as context:
        page = context.new_page()
        page.goto("/")
        expect(page.locator(".caption").first).to_contain_text("Layer 0 sees only the spelling")
        expect(page.get_by_role("radio", name="0")).to_be_checked()
        page.keyboard.press("x")
        expect(page.locator(".caption").first).to_be_hidden()
        expect(page.get_by_role("radio", name="2")).to_be_checked()
        page.reload()
        expect(page.locator(".dot")).to_have_count(BANKS)
        expect(page.get_by_role("radio", name="2")).to_be_checked()  # once in a tab


def test_all_layers_are_played_and_the_last_one_stays(chromium, address, expect):
    with moving(chromium, address) as context:
        page = context.new_page()
        page.goto("/#meanings?word=bank&mix=1")  # a link is shown as it was sent
        expect(page.locator(".dot")).to_have_count(BANKS)
        expect(page.locator(".caption").first).to_be_hidden()
        page.get_by_role("button", name="Play").click()
        for layer in "012":
            expect(page.locator(".caption").first).to_contain_text(f"Layer {layer}")
        expect(page.locator(".caption").first).to_be_hidden()
        expect(page.get_by_role("radio", name="1")).to_be_checked()


def test_with_less_motion_nothing_plays_by_itself(page, expect):
    page.goto("/")
    expect(page.locator(".dot")).to_have_count(BANKS)
    expect(page.locator(".caption").first).to_be_hidden()
    expect(page.get_by_role("radio", name="2")).to_be_checked()


def test_the_help_has_four_sentences_and_closes_on_escape(page, expect):
    page.goto("/#meanings?word=bank")
    page.get_by_role("button", name="How to read this").click()
    dialog = page.get_by_role("dialog", name="How to read the map")
    expect(dialog.get_by_role("listitem")).to_have_count(4)
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()


def test_a_misspelled_word_is_answered_with_the_one_that_was_meant(page, expect, provoked):
    provoked.append("404")
    page.goto("/#meanings?word=rivver")
    expect(page.locator(".meanings > .status")).to_contain_text("Did you mean")
    page.locator(".status").get_by_role("button", name="river").click()
    expect(page.locator(".lede")).to_contain_text("uses of “river”")


def test_an_index_without_bank_begins_with_one_of_its_words(page, expect, provoked):
    provoked.append("404")

    def without_bank(route):
        known = route.request.post_data_json["word"] != "bank"
        return (
            route.fallback() if known else route.fulfill(status=404, json={"detail": "the index has no use of 'bank'"})
        )

    page.route("**/v1/map", without_bank)
    page.route("**/v1/words/suggested", lambda route: route.fulfill(json={"words": [{"word": "river", "uses": 4}]}))
    page.goto("/")
    expect(page.locator(".lede")).to_contain_text("uses of “river”")
    expect(page.locator(".title .chip")).to_have_text(["river"])


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious_in_panels_and_help(page, expect, scheme, serious):
    page.emulate_media(color_scheme=scheme)
    page.goto(f"/#meanings?word=bank&own={OWN}&find=river")
    expect(page.get_by_label("Your sentence")).to_be_visible()
    assert serious(page) == []
    page.get_by_role("button", name="How to read this").click()
    assert serious(page) == []


TOO_LONG = "the bank " + "x" * 501


def test_a_refused_sentence_is_explained_under_its_field_and_the_map_stays(page, expect, provoked):
    provoked.append("422")
    page.goto("/#meanings?word=bank")
    expect(page.locator(".dot")).to_have_count(BANKS)
    typed(page, TOO_LONG)
    expect(page.locator(".own-note")).to_contain_text("Error: 501 characters in a token")
    expect(page.locator(".meanings > .status")).to_be_empty()
    expect(page.locator(".dot").first).to_be_visible()
    typed(page, OWN)
    expect(page.locator("path.own[d]")).to_have_count(1)
    expect(page.locator(".own-note")).to_be_empty()


def test_a_link_with_a_refused_sentence_shows_the_map_without_it(page, expect, provoked):
    provoked.append("422")
    page.goto(f"/#meanings?word=bank&own={TOO_LONG}")
    expect(page.locator(".dot")).to_have_count(BANKS)
    expect(page.locator(".own-note")).to_contain_text("501 characters in a token")


def test_a_text_that_cannot_be_tokenised_is_explained_under_its_field(page, expect, provoked):
    provoked.append("413")
    page.goto("/#meanings?word=bank")
    expect(page.locator(".dot")).to_have_count(BANKS)
    page.route("**/v1/tokenize", lambda route: route.fulfill(status=413, json={"detail": "the body is too large"}))
    typed(page, OWN)
    expect(page.locator(".own-note")).to_have_text("Error: The body is too large.")
    expect(page.locator(".dot").first).to_be_visible()


def test_a_sentence_can_be_shown_again_after_an_error(page, expect, provoked):
    provoked.append("503")
    page.goto("/#meanings?word=bank")
    expect(page.locator(".dot")).to_have_count(BANKS)
    page.route("**/v1/tokenize", lambda route: route.fulfill(status=503, json={"detail": "it took too long"}))
    typed(page, OWN)
    expect(page.locator(".meanings > .status")).to_have_text("Error: It took too long.")
    expect(page.locator(".stale .dot").first).to_be_visible()
    page.unroute("**/v1/tokenize")
    page.get_by_role("button", name="Show", exact=True).click()
    expect(page.locator("path.own[d]")).to_have_count(1)
    expect(page.locator(".stale")).to_have_count(0)


def test_enter_during_composition_submits_no_sentence(page, expect):
    page.goto("/#meanings?word=bank")
    expect(page.locator(".dot")).to_have_count(BANKS)
    field = page.get_by_label("Type a sentence with bank")
    field.focus()
    pressed = (
        "node => node.dispatchEvent(new KeyboardEvent('keydown', {key: 'Enter', isComposing: true, cancelable: true}))"
    )
    page.evaluate("document.querySelector('#own').value = 'the ban'")
    assert field.evaluate(pressed)  # nothing prevented what the input method does with it
    assert "own=" not in page.url
