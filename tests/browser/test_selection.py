"""Zooming, encircling, searching and the labels of a map; and what the saved files carry."""

import csv
import io
import json
from xml.etree import ElementTree

import pytest
from browser.corpus import BANKS

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def bank(page, expect):
    page.goto("/#meanings?word=bank&groups=2")
    expect(page.locator(".dot")).to_have_count(BANKS)
    return page


def spread(found):
    x = [point[0] for point in found]
    return max(x) - min(x)


def test_the_map_is_zoomed_by_buttons_keys_and_the_wheel(bank, expect, places, numbers):
    whole = numbers(places(bank).values())
    bank.get_by_role("button", name="Zoom in").first.click()
    near = numbers(places(bank).values())
    assert spread(near) > 1.4 * spread(whole)
    box = bank.locator("svg.scatter").first.bounding_box()
    bank.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    bank.mouse.down()
    bank.mouse.move(box["x"] + box["width"] / 2 + 40, box["y"] + box["height"] / 2, steps=4)
    bank.mouse.up()
    assert numbers(places(bank).values())[0][0] == pytest.approx(near[0][0] + 40, abs=0.2)
    bank.keyboard.down("Control")
    bank.mouse.wheel(0, -200)
    bank.keyboard.up("Control")
    expect(bank.locator(".dot").first).not_to_have_attribute("transform", "")
    bank.wait_for_function("document.querySelector('svg.scatter').__zoom.k > 1.7")
    bank.get_by_role("button", name="Show the whole map").click()
    assert numbers(places(bank).values()) == whole
    drawing = bank.locator("svg.scatter").first
    drawing.press("+")
    assert spread(numbers(places(bank).values())) > 1.4 * spread(whole)
    drawing.press("0")
    assert numbers(places(bank).values()) == whole


def test_the_wheel_alone_scrolls_the_page(bank):
    bank.set_viewport_size({"width": 1280, "height": 600})
    bank.locator("svg.scatter").first.hover()
    bank.mouse.wheel(0, 120)
    bank.wait_for_function("scrollY > 0")
    assert bank.evaluate("document.querySelector('svg.scatter').__zoom.k") == 1


def encircle(page, left, top, right, bottom):
    page.mouse.move(left, top)
    page.mouse.down()
    for x, y in ((right, top), (right, bottom), (left, bottom), (left, top + 1)):
        page.mouse.move(x, y, steps=3)
    page.mouse.up()


def test_encircled_points_are_listed_and_saved(bank, expect, numbers):
    box = bank.locator("svg.scatter").first.bounding_box()
    middle = box["x"] + box["width"] / 2
    bank.get_by_role("button", name="Select points").first.click()
    encircle(bank, box["x"] + 12, box["y"] + 12, middle, box["y"] + box["height"] - 12)  # its corners are round
    dots = bank.locator("figure.map").first.locator(".dot")
    places = dots.evaluate_all("dots => dots.map(dot => [dot.id.split('-')[1], dot.getAttribute('transform')])")
    x = [x for x, _ in numbers([place for _, place in places])]
    inside = {id for (id, _), left in zip(places, x, strict=True) if left < box["width"] / 2}
    assert 0 < len(inside) < BANKS
    expect(bank.locator(".found-head")).to_contain_text(f"{len(inside)} sentence")
    assert {line.get_attribute("data-use") for line in bank.locator(".found .line").all()} == inside
    assert bank.locator(".dot.kept").count() == len(inside)
    assert bank.locator(".dot.picked").count() == 0  # the end of the line is not a choice
    with bank.expect_download() as download:
        bank.get_by_role("button", name="Save as CSV").click()
    rows = list(csv.DictReader(io.StringIO(download.value.path().read_text())))
    assert {row["id"] for row in rows} == inside
    assert {(row["word"], row["layer"]) for row in rows} == {("bank", "2")}
    bank.get_by_role("button", name="Clear").click()
    expect(bank.locator(".dot.kept")).to_have_count(0)


def test_sentences_are_searched(bank, expect):
    bank.get_by_label("Search the sentences").fill("The WATER")
    expect(bank.locator(".found .line")).to_have_count(2)
    expect(bank.locator(".dot.kept")).to_have_count(2)
    assert "find=The+WATER" in bank.url
    bank.get_by_label("Search the sentences").fill("nowhere to be seen")
    expect(bank.locator(".found-head")).to_contain_text("0 sentences found")
    bank.reload()
    expect(bank.get_by_label("Search the sentences")).to_have_value("nowhere to be seen")
    expect(bank.locator(".found-head")).to_contain_text("0 sentences found")  # the map is there
    bank.get_by_label("Search the sentences").fill("")
    expect(bank.locator(".found-head")).to_be_hidden()
    expect(bank.locator(".dot.faint")).to_have_count(0)


@pytest.mark.parametrize("width", [1440, 390, 320])
def test_no_label_covers_a_point_or_another_label(bank, expect, width):
    bank.set_viewport_size({"width": width, "height": 900})
    bank.goto("/#meanings?word=bank&groups=4")
    bank.reload()
    expect(bank.locator(".dot")).to_have_count(BANKS)
    boxes = """nodes => nodes.map(node => node.getBoundingClientRect())
        .map(({left, right, top, bottom}) => [left, right, top, bottom])"""
    names = bank.locator(".name").evaluate_all(boxes)
    dots = bank.locator("figure.map").first.locator(".dot circle").evaluate_all(boxes)
    frame = bank.locator("svg.scatter").evaluate_all(boxes)[0]
    assert names

    def apart(a, b):
        return a[1] <= b[0] or b[1] <= a[0] or a[3] <= b[2] or b[3] <= a[2]

    assert all(apart(name, dot) for name in names for dot in dots)
    assert all(apart(a, b) for i, a in enumerate(names) for b in names[:i])
    assert all(frame[0] <= name[0] and name[1] <= frame[1] for name in names)


def test_each_group_has_an_outline(bank, expect):
    expect(bank.locator("figure.map").first.locator(".outline")).to_have_count(2)
    expect(bank.locator(".outline[d^=M]")).to_have_count(2)
    bank.get_by_role("radio", name="0").check()
    expect(bank.locator(".trust p").first).to_contain_text("All uses are one point")
    expect(bank.locator(".outline")).to_have_count(0)


def test_pictures_and_data_carry_word_layer_legend_and_credit(bank):
    def saved(kind):
        with bank.expect_download() as download:
            bank.get_by_role("button", name=kind, exact=True).click()
        return download.value.path().read_text()

    drawing = ElementTree.fromstring(saved("SVG"))
    texts = ["".join(text.itertext()) for text in drawing.iter(f"{SVG}text")]
    assert f"The meanings of “bank”: {BANKS} uses" in texts
    assert "Layer 2" in texts
    names = [name.split("\n")[0] for name in bank.locator(".group h3 bdi").all_inner_texts()]
    counts = [count.split()[0] for count in bank.locator(".group .count").all_inner_texts()]
    for name, count in zip(names, counts, strict=True):
        assert any(text.startswith(f"{name} ({count})") for text in texts)
    assert any("model tiny" in text and "sentences about banks" in text for text in texts)
    data = json.loads(saved("JSON"))
    assert (data["word"], data["layers"]) == ("bank", ["Layer 2"])
    assert "sentences about banks" in data["credit"]


def test_a_finger_encircles_points(chromium, address, expect):
    with chromium.new_context(
        base_url=address,
        viewport={"width": 390, "height": 844},
        has_touch=True,
        is_mobile=True,
        reduced_motion="reduce",
    ) as context:
        context.set_default_timeout(30_000)
        tab = context.new_page()
        tab.goto("/#meanings?word=bank")
        expect(tab.locator(".dot")).to_have_count(BANKS)
        tab.get_by_role("button", name="Select points").first.tap()
        box = tab.locator("svg.scatter").first.bounding_box()
        left, right = box["x"] + 8, box["x"] + box["width"] - 8
        top, bottom = box["y"] + 8, box["y"] + box["height"] - 8
        touch = tab.context.new_cdp_session(tab)
        send = lambda kind, *points: touch.send(  # noqa: E731
            "Input.dispatchTouchEvent", {"type": kind, "touchPoints": [{"x": x, "y": y} for x, y in points]}
        )
        send("touchStart", (left, top))
        for point in ((right, top), (right, bottom), (left, bottom), (left, top + 2)):
            send("touchMove", point)
        send("touchEnd")
        expect(tab.locator(".found-head")).to_contain_text(f"{BANKS} sentences selected")
