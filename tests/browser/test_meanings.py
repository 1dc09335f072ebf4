"""The map of a word's uses: points, layers, mixes, groups, links and exports, by mouse and by keys."""

import csv
import io
import json
from xml.etree import ElementTree

import pytest
from browser.corpus import ARABIC, BANKS, MARKUP


@pytest.fixture
def bank(page, expect):
    """The page with all uses of "bank" drawn."""
    page.goto("/#meanings?word=bank")
    expect(page.locator(".dot")).to_have_count(BANKS)
    return page


def unfold(page):
    """All lines of all groups."""
    for more in page.locator(".more").all():
        more.click()


def slider(page, name):
    return page.get_by_role("slider", name=name).first


def test_every_use_is_a_point_and_a_line_of_its_group(bank, expect):
    unfold(bank)
    expect(bank.locator(".groups .line")).to_have_count(BANKS)
    expect(bank.locator(".lede")).to_contain_text(f"{BANKS} uses of “bank”")


def test_the_page_begins_with_bank(page, expect):
    page.goto("/")
    expect(page.get_by_role("combobox", name="A word")).to_have_value("bank")
    expect(page.locator(".dot")).to_have_count(BANKS)


@pytest.mark.parametrize(("word", "uses"), [("runs", 1), ("vault", 2)])
def test_a_rare_word_has_its_few_points(page, expect, places, numbers, word, uses):
    page.goto(f"/#meanings?word={word}")
    expect(page.locator(".dot")).to_have_count(uses)
    expect(page.locator(".trust p").first).to_contain_text("Too few uses to tell")
    assert all(0 < x < 1280 and 0 < y < 1000 for x, y in numbers(places(page).values()))


def test_on_layer_0_all_uses_are_one_heap(bank, expect, places, numbers):
    before = places(bank)
    bank.get_by_role("radio", name="0").check()
    expect(bank.locator(".trust p").first).to_contain_text("All uses are one point")
    after = places(bank)
    assert after.keys() == before.keys()
    x, y = zip(*numbers(after.values()), strict=True)
    assert max(x) - min(x) < 60
    assert max(y) - min(y) < 60
    wide, high = zip(*numbers(before.values()), strict=True)
    assert max(max(wide) - min(wide), max(high) - min(high)) > 200
    assert "mix=0" in bank.url


def test_points_glide_to_where_they_belong(page, expect, places):
    page.goto("/#meanings?word=bank&mix=1")
    expect(page.locator(".dot")).to_have_count(BANKS)
    name, there = next(iter(places(page).items()))
    page.get_by_role("radio", name="2").check()
    expect(page.locator(f"#{name}")).not_to_have_attribute("transform", there)
    page.emulate_media(reduced_motion="no-preference")
    page.get_by_role("radio", name="1").check()
    expect(page.locator(f"#{name}")).to_have_attribute("transform", there)


def test_dragging_a_share_moves_the_map(bank, expect, places):
    before = places(bank)
    share = slider(bank, "Share of layer 0")
    share.scroll_into_view_if_needed()
    box = share.bounding_box()
    middle = box["y"] + box["height"] / 2
    bank.mouse.move(box["x"] + 10, middle)
    bank.mouse.down()
    bank.mouse.move(box["x"] + box["width"] * 0.7, middle, steps=8)
    expect(bank.locator(".story").first).to_contain_text("A mix of your own")
    name, there = next(iter(before.items()))
    expect(bank.locator(f"#{name}")).not_to_have_attribute("transform", there)  # while the hand is still on it
    bank.mouse.up()
    shares = [float(slider(bank, f"Share of layer {layer}").input_value()) for layer in range(3)]
    assert sum(shares) == pytest.approx(1, abs=0.02)
    assert 0.5 < shares[0] < 0.9
    assert "mix=0." in bank.url


def test_keys_move_a_share_and_gamma(bank, expect, places, numbers):
    name, there = next(iter(places(bank).items()))
    slider(bank, "Share of layer 1").press("End")
    expect(bank.locator(f"#{name}")).not_to_have_attribute("transform", there)
    expect(bank.get_by_role("radio", name="1")).to_be_checked()
    wide = places(bank)
    slider(bank, "Gamma").press("Home")
    expect(bank.locator(f"#{name}")).not_to_have_attribute("transform", wide[name])

    def spread(found):
        x = [point[0] for point in numbers(found.values())]
        return max(x) - min(x)

    assert spread(places(bank)) < 0.5 * spread(wide)


def test_arrows_walk_over_the_points_and_enter_keeps_one(bank, expect):
    drawing = bank.locator("svg.scatter").first
    drawing.focus()
    bank.keyboard.press("ArrowRight")
    first = drawing.get_attribute("aria-activedescendant")
    visited = {first}
    for key in ("ArrowRight", "ArrowDown", "ArrowLeft", "ArrowUp"):
        bank.keyboard.press(key)
        visited.add(drawing.get_attribute("aria-activedescendant"))
    assert len(visited) > 1
    now = bank.locator(f"#{drawing.get_attribute('aria-activedescendant')}")
    expect(bank.locator(".card:visible")).to_have_text(now.get_attribute("aria-label"))
    bank.keyboard.press("Enter")
    expect(now).to_have_attribute("aria-selected", "true")
    assert f"use={now.get_attribute('id').removeprefix('map0-')}" in bank.url
    bank.keyboard.press("Escape")
    expect(bank.locator(".dot.picked")).to_have_count(0)


def test_a_use_pointed_at_is_marked_in_both_maps(bank, expect):
    bank.get_by_label("Show a second map").check()
    maps = bank.locator("figure.map")
    expect(maps.nth(1).locator(".dot")).to_have_count(BANKS)
    maps.nth(0).locator(".dot").nth(3).hover(force=True)
    first, second = (maps.nth(n).locator(".dot.active").get_attribute("id") for n in (0, 1))
    assert first.removeprefix("map0-") == second.removeprefix("map1-")
    expect(bank.locator(".card:visible")).to_have_count(1)


def test_a_line_of_a_group_marks_its_point(bank, expect):
    line = bank.locator(".groups .line").nth(2)
    line.hover()
    expect(bank.locator(f"#map0-{line.get_attribute('data-use')}.active")).to_have_count(1)
    line.click()
    expect(bank.locator(f"#map0-{line.get_attribute('data-use')}.picked")).to_have_count(1)


def test_a_link_restores_the_view(bank, expect, places):
    use = bank.locator(".groups .line").first.get_attribute("data-use")
    bank.goto(f"/#meanings?word=bank&mix=0.2,0.3,0.5&gamma=0.5&mix2=mean&groups=2&use={use}")
    expect(bank.locator(".dot")).to_have_count(2 * BANKS)
    expect(bank.get_by_label("Number of groups")).to_have_value("2")
    assert float(slider(bank, "Share of layer 1").input_value()) == pytest.approx(0.3)
    assert float(slider(bank, "Gamma").input_value()) == pytest.approx(0.5)
    expect(bank.get_by_role("radio", name="Mean").nth(1)).to_be_checked()
    expect(bank.locator(f"#map0-{use}.picked, #map1-{use}.picked")).to_have_count(2)
    found = places(bank)
    bank.reload()
    expect(bank.locator(".dot")).to_have_count(2 * BANKS)
    assert places(bank) == found


def test_a_word_is_found_by_its_first_letters_and_back_returns(bank, expect):
    box = bank.get_by_role("combobox", name="A word")
    box.fill("riv")
    expect(bank.locator(".suggestions li")).to_contain_text(["river"])
    box.press("ArrowDown")
    box.press("Enter")
    expect(bank.locator(".lede")).to_contain_text("uses of “river”")
    assert "word=river" in bank.url
    bank.go_back()
    expect(bank.locator(".dot")).to_have_count(BANKS)
    expect(box).to_have_value("bank")


def test_a_word_that_is_not_there_is_said_to_be_missing(bank, expect, provoked):
    provoked.append("404")
    box = bank.get_by_role("combobox", name="A word")
    box.fill("zeppelin")
    box.press("Enter")
    expect(bank.locator(".meanings > .status")).to_contain_text("no use of 'zeppelin'")
    expect(bank.locator("figure.map").first).to_be_hidden()
    bank.get_by_role("button", name="bank", exact=True).click()
    expect(bank.locator("figure.map").first).to_be_visible()


@pytest.mark.parametrize("failure", [{"status": 503, "json": {"detail": "it took too long"}}, None])
def test_a_failed_request_keeps_the_map_and_the_same_word_asks_again(bank, expect, provoked, failure):
    provoked += ["503", "net::ERR_FAILED"]
    bank.route("**/v1/map", lambda route: route.fulfill(**failure) if failure else route.abort())
    box = bank.get_by_role("combobox", name="A word")
    box.fill("river")
    box.press("Enter")
    expect(bank.locator(".meanings > .status[data-kind=failed]")).to_contain_text("Error")
    expect(bank.locator(".stale .dot")).to_have_count(BANKS)
    expect(bank.locator("#own")).to_be_visible()
    bank.unroute("**/v1/map")
    box.press("Enter")
    expect(bank.locator(".lede")).to_contain_text("uses of “river”")
    expect(bank.locator(".stale")).to_have_count(0)


def test_entering_the_same_word_again_changes_nothing(bank, expect):
    bank.locator(".groups .line").first.click()
    expect(bank.get_by_label("Chosen use")).to_be_visible()
    address = bank.url
    bank.get_by_role("combobox", name="A word").press("Enter")
    assert bank.url == address


def test_enter_during_composition_takes_no_word(bank, expect):
    box = bank.get_by_role("combobox", name="A word")
    box.fill("riv")
    pressed = (
        "node => node.dispatchEvent(new KeyboardEvent('keydown', {key: 'Enter', isComposing: true, cancelable: true}))"
    )
    assert box.evaluate(pressed)
    expect(box).to_have_value("riv")
    assert "riv" not in bank.url


def test_a_slow_map_comes_in_the_end(bank, expect, places):
    before = places(bank)
    bank.get_by_role("radio", name="t-SNE").check()
    expect(bank.locator("figure .dot").first).not_to_have_attribute("transform", next(iter(before.values())))
    assert places(bank).keys() == before.keys()
    assert "method=tsne" in bank.url


def test_markup_in_a_sentence_shows_as_text(bank, expect):
    unfold(bank)
    line = bank.locator(".groups .line", has_text="alert(1)").first
    expect(line).to_contain_text("<b>bank</b> and <script>alert(1)</script>")
    label = bank.locator(".dot").evaluate_all("dots => dots.map(dot => dot.getAttribute('aria-label'))")
    assert MARKUP.replace(" .", ".") in label
    assert bank.locator("main b, main script").count() == 0


def test_arabic_runs_from_right_to_left(bank, expect):
    unfold(bank)
    first = ARABIC.split()[0]
    sentence = bank.locator(".groups .sentence", has_text=first)
    assert sentence.evaluate("node => getComputedStyle(node).direction") == "rtl"
    english = bank.locator(".groups .sentence", has_text="river").first
    assert english.evaluate("node => getComputedStyle(node).direction") == "ltr"


def saved(page, kind):
    with page.expect_download() as download:
        page.get_by_role("button", name=kind, exact=True).click()
    assert download.value.suggested_filename == f"meanings-bank.{kind.lower()}"
    return download.value.path().read_bytes()


def test_the_picture_and_the_data_are_saved(bank):
    drawing = ElementTree.fromstring(saved(bank, "SVG"))
    assert len(list(drawing.iter("{http://www.w3.org/2000/svg}circle"))) == BANKS
    rows = list(csv.DictReader(io.StringIO(saved(bank, "CSV").decode())))
    assert len(rows) == BANKS
    assert any(row["sentence"] == MARKUP.replace(" .", ".") for row in rows)
    data = json.loads(saved(bank, "JSON"))
    assert [str(use["id"]) for use in data["uses"]] == [row["id"] for row in rows]


def test_a_picture_has_only_colours_that_every_program_reads(bank, expect):
    bank.get_by_label("Number of groups").select_option("2")
    expect(bank.locator("figure .name").first).to_be_visible()
    drawing = saved(bank, "SVG").decode()
    assert "color(" not in drawing
    assert "rgb(" in drawing


def test_the_png_shows_the_map(bank):
    data = saved(bank, "PNG")
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    width = int.from_bytes(data[16:20])
    assert width == 2 * bank.locator("svg.scatter").first.evaluate("node => node.clientWidth")
    assert len(data) > 5000  # a blank sheet takes less


def test_only_projections_that_the_server_has_are_offered(page, expect):
    def without_umap(route):
        (model,) = route.fetch().json()
        route.fulfill(json=[model | {"map_methods": ["pca", "tsne"]}])

    page.route("**/v1/models", without_umap)
    page.goto("/#meanings?word=bank")
    expect(page.locator(".dot")).to_have_count(BANKS)
    expect(page.get_by_role("radio", name="t-SNE")).to_have_count(1)
    expect(page.get_by_role("radio", name="UMAP")).to_have_count(0)


def test_a_sample_is_counted_against_all_uses(page, expect):
    def many(route):
        route.fulfill(json=route.fetch().json() | {"total": 24310})

    page.route("**/v1/map", many)
    page.goto("/#meanings?word=bank")
    expect(page.locator(".lede")).to_contain_text(f"{BANKS} of 24,310 uses of “bank”")


def test_groups_say_what_the_model_expects_in_their_place(page, expect):
    page.goto("/#meanings?word=bank&groups=2")
    notes = page.locator(".group .instead")
    expect(notes.nth(1)).to_contain_text("The model expects here: ")
    expect(notes).to_have_count(2)
    page.locator(".groups .line").first.click()
    expect(page.get_by_label("Chosen use")).to_contain_text(notes.first.inner_text())


def test_points_are_coloured_by_a_column_of_the_data(page, expect, serious):
    page.goto("/#meanings?word=bank&groups=3")
    expect(page.locator(".group")).to_have_count(3)
    page.get_by_label("Colour by").select_option("topic")
    expect(page.locator(".group h3 bdi")).to_have_text(["water", "money"])
    expect(page.locator(".lede")).to_contain_text("coloured by topic")
    expect(page.locator(".group .count")).to_have_text([f"{BANKS - 12} uses", "12 uses"])
    assert "colour=topic" in page.url
    colours = page.locator(".dot").evaluate_all("dots => dots.map(dot => dot.getAttribute('class').match(/c[0-9]/)[0])")
    assert len(set(colours)) == 2
    page.locator(".groups .line").last.click()
    expect(page.get_by_label("Chosen use")).to_contain_text("topic money, 12 uses.")
    assert serious(page) == []
    page.get_by_label("Colour by").select_option("group")
    expect(page.locator(".group")).to_have_count(3)
