"""The page in a real browser: drop, paste, choose, click through, filter, keyboard, a phone's width."""

import base64
import os
import re
import shutil

import pytest

from .conftest import encoded_image

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is absent")
MILLISECONDS = 90_000  # that a machine with much else to do may take for anything
playwright.expect.set_options(timeout=MILLISECONDS)
CHROMIUM = (
    os.environ.get("LOOKALIKE_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
)

pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine (set LOOKALIKE_CHROMIUM)"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

FILE = """([text, name]) => {
    const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
    const transfer = new DataTransfer();
    transfer.items.add(new File([bytes], name, {type: "image/png"}));
    return transfer;
}"""


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as started:
        made = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"], timeout=MILLISECONDS)
        yield made
        made.close()


@pytest.fixture
def expected():
    """What Chromium may report as an error: a refused filter is tested here, and a test may add to it."""
    return ["status of 422"]


@pytest.fixture
def page(browser, served, expected):
    """The page; the test fails for a console error or a request to another host."""
    address, wrong = served(), []
    opened = browser.new_page(viewport={"width": 1200, "height": 800})
    opened.set_default_timeout(MILLISECONDS)
    opened.on("console", lambda message: wrong.append(message.text) if is_wrong(message, expected) else None)
    opened.on("pageerror", lambda error: wrong.append(str(error)))
    opened.on(
        "request", lambda r: None if r.url.startswith((address, "blob:", "data:")) else wrong.append(r.url)
    )
    opened.on("filechooser", lambda _: None)  # choosers are caught from here on, however late a test asks
    opened.goto(address)
    yield opened
    opened.close()
    assert not wrong


def is_wrong(message, expected):
    """Chromium itself reports refused requests as errors."""
    return message.type == "error" and not any(text in message.text for text in expected)


def give(page, event, seed):
    """Drops or pastes an image."""
    transfer = page.evaluate_handle(FILE, [base64.b64encode(encoded_image(seed)).decode(), "x.png"])
    if event == "drop":
        page.dispatch_event("#drop", "drop", {"dataTransfer": transfer})
    else:
        page.evaluate(
            "(t) => document.dispatchEvent(new ClipboardEvent('paste', {clipboardData: t, bubbles: true}))",
            transfer,
        )


def first(page, path):
    """Waits until the first hit is `path`."""
    playwright.expect(page.locator(".hit .path").first).to_have_text(path)


@pytest.mark.parametrize("way", ["drop", "paste", "choose"])
def test_an_image_is_searched(page, way):
    if way == "choose":
        with page.expect_file_chooser() as chooser:
            page.click("#choose")
        chooser.value.set_files({"name": "x.png", "mimeType": "image/png", "buffer": encoded_image(4)})
    else:
        give(page, way, 4)
    first(page, "photos/b/4.png")
    playwright.expect(page.locator(".hit")).to_have_count(12)
    playwright.expect(page.locator(".hit span").first).to_have_text(re.compile(r"1\.000\s+b"))
    page.wait_for_function("() => [...document.images].some((i) => i.complete && i.naturalWidth)")


@pytest.mark.parametrize("trouble", ["no server", "no index"])
def test_the_page_goes_on_when_the_server_or_its_index_is_back(page, expected, store, monkeypatch, trouble):
    """As when either is replaced while somebody searches."""
    expected += ["status of 503", "net::ERR_FAILED"]
    if trouble == "no server":
        page.route("**/api/search*", lambda route: route.abort())
    else:
        folder = store._folder
        monkeypatch.setattr(store, "_folder", folder / "gone")
        monkeypatch.setattr(store._served.index, "is_changed", lambda: True)
    give(page, "drop", 4)
    status = page.locator("#status.error")
    words = {
        "no server": "The server does not answer. Trying again",
        "no index": "no index in .* Trying again",
    }
    playwright.expect(status).to_contain_text(re.compile(words[trouble]))
    if trouble == "no server":
        page.unroute("**/api/search*")
    else:
        monkeypatch.undo()
    first(page, "photos/b/4.png")
    playwright.expect(status).to_have_count(0)


def test_click_through_filter_and_threshold(page):
    give(page, "drop", 4)
    first(page, "photos/b/4.png")
    page.click(".hit >> nth=1")
    playwright.expect(page.locator("#status")).to_have_text("11 images shown")
    page.fill("#where", "label = c and year > 2005")
    page.press("#where", "Enter")
    playwright.expect(page.locator(".hit")).to_have_count(2)
    page.fill("#where", "colour = 3")
    page.press("#where", "Enter")
    playwright.expect(page.locator("#status.error")).to_contain_text("unknown column 'colour'")


def test_unknown_is_reported_and_hidden_on_request(page):
    give(page, "drop", 777)
    playwright.expect(page.locator(".hit")).to_have_count(12)
    slide = (
        "{ threshold.value = 1; ['input', 'change'].forEach((e) => threshold.dispatchEvent(new Event(e))); }"
    )
    page.evaluate(f"() => {slide}")
    playwright.expect(page.locator("#status.unknown")).to_contain_text("Unknown")
    playwright.expect(page.locator(".hit.below")).to_have_count(12)
    page.check("#hide")
    playwright.expect(page.locator(".hit")).to_have_count(0)
    page.click("#reset")
    page.uncheck("#hide")
    playwright.expect(page.locator(".hit")).to_have_count(12)


def test_two_images_are_compared_by_mouse(page):
    page.click("#browse")
    for number in (0, 2):
        page.locator("#hits li").nth(number).hover()
        page.click(f".compare >> nth={number}")
    playwright.expect(page.locator("#compare")).to_be_visible()
    playwright.expect(page.locator("#left-name")).to_have_text("photos/a/0.png")
    playwright.expect(page.locator("#right-name")).to_have_text("photos/c/2.png")


def test_the_indexs_own_threshold_counts_until_the_slider_moves(page):
    asked = []
    page.on("request", lambda request: asked.append(request.url) if "/api/search" in request.url else None)
    give(page, "drop", 4)
    first(page, "photos/b/4.png")
    playwright.expect(page.locator("#threshold-value")).to_have_text("0.900")
    page.locator("#threshold").focus()
    page.keyboard.press("End")
    playwright.expect(page.locator("#threshold-value")).to_have_text("1.000")
    playwright.expect(page.locator(".hit.below")).not_to_have_count(0)
    page.click("#reset")
    playwright.expect(page.locator(".hit.below")).to_have_count(0)
    playwright.expect(page.locator("#threshold-value")).to_have_text("0.900")
    assert ["threshold=" in url for url in asked] == [False, True, False]


def test_keyboard_only(page):
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.id") == "where"
    page.keyboard.type("label = a")
    page.keyboard.press("Enter")
    page.evaluate("document.activeElement.blur()")
    with page.expect_file_chooser() as chooser:
        page.keyboard.press("o")
    chooser.value.set_files({"name": "x.png", "mimeType": "image/png", "buffer": encoded_image(3)})
    first(page, "photos/a/3.png")
    page.evaluate("document.activeElement.blur()")
    for key in ("ArrowRight", "ArrowRight"):
        page.keyboard.press(key)
    assert page.evaluate("[...document.querySelectorAll('.hit')].indexOf(document.activeElement)") == 1
    page.keyboard.press("c")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("c")
    playwright.expect(page.locator("#compare")).to_be_visible()
    page.keyboard.press("Escape")
    playwright.expect(page.locator("#compare")).to_be_hidden()
    page.keyboard.press("Enter")
    playwright.expect(page.locator("#status")).to_have_text("3 images shown")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phones_width_has_no_sideways_scroll(page, scheme):
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": 375, "height": 700})
    give(page, "drop", 4)
    first(page, "photos/b/4.png")
    assert page.evaluate("document.documentElement.scrollWidth") <= 375
    small = (
        "[...document.querySelectorAll('button')].filter((b) => b.offsetParent && b.offsetHeight < 36).length"
    )
    assert page.evaluate(small) == 0
    text, back = (page.evaluate(f"getComputedStyle(document.body).{p}") for p in ("color", "backgroundColor"))
    assert text != back


def test_browsing_the_whole_index(page):
    page.click("#browse")
    playwright.expect(page.locator(".hit")).to_have_count(12)


def shown_hits(page, *hits, unknown=False):
    """Searches, where the server answers these hits."""
    plain = {
        "label": "",
        "copies": [],
        "columns": {},
        "missing": False,
        "similarity": 0.5,
        "same_class": True,
    }
    found = [{"id": 1, **plain, **hit} for hit in hits]
    answer = {"unknown": unknown, "threshold": 0.9, "hits": found, "next_offset": None}
    page.route("**/api/search?*", lambda route: route.fulfill(json=answer))
    give(page, "drop", 4)


def left_edges(page, texts):
    """Where each of these parts of the first path begins."""
    script = "(e, t) => t.map((x) => [...e.children].find((b) => b.textContent === x).getBoundingClientRect().left)"
    return page.locator(".hit .path").first.evaluate(script, texts)


def test_parts_of_a_path_stay_in_order_whatever_their_script(page):
    shown_hits(page, {"path": "x/صور/אב/4.png"})
    first(page, "x/صور/אב/4.png")
    edges = left_edges(page, ["x", "صور", "אב", "4.png"])
    assert edges == sorted(edges)


def test_a_long_path_is_cut_at_its_beginning(page):
    shown_hits(page, {"path": f"{'folder/' * 20}4.png"})
    playwright.expect(page.locator(".hit .path").first).to_have_text(re.compile(r"^….*/folder/4\.png$"))


@pytest.mark.parametrize(
    ("count", "text"), [(0, "No image matches."), (1, "1 image shown"), (2, "2 images shown")]
)
def test_status_says_how_many_match(page, count, text):
    shown_hits(page, *[{"path": "a/1.png"}] * count, unknown=count == 0)
    playwright.expect(page.locator("#status")).to_have_text(text)


@pytest.mark.parametrize("width", [1280, 768, 375])
def test_nothing_sticks_out_of_its_column(page, width):
    page.set_viewport_size({"width": width, "height": 800})
    shown_hits(page, {"path": "p/" + "x" * 300, "label": "名" * 100}, {"path": "b.png", "label": "l" * 200})
    playwright.expect(page.locator(".hit")).to_have_count(2)
    page.evaluate("() => { document.querySelector('#options details').open = true; }")
    wider = """() => [...document.querySelectorAll('main *')].filter((e) =>
        e.getBoundingClientRect().right > e.parentElement.getBoundingClientRect().right + 0.5)
        .map((e) => e.outerHTML)"""
    assert page.evaluate(wider) == []
