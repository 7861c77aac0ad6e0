"""The explorer in a real browser. Screenshots go to `EIGENMAP_SCREENSHOTS`, or with the test's other files."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import cycle
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Error

from tests.end_to_end.browser import Tab, browser, served
from tests.end_to_end.process import eigenmap
from tests.service.pictures import encoded

NewTab = Callable[..., Tab]
RESULTS = "n => document.querySelectorAll('#results-a .item').length === n"
OTHERS = "before => { const now = [...document.querySelectorAll('#results-a .item')].map(i => i.dataset.key); return now.length && String(now) !== String(before); }"  # noqa: E501


@pytest.fixture(scope="module")
def address(fitted: Path) -> Iterator[str]:
    eigenmap("index", "runs/mine", "PHOTOS", "--out", "explored.index", cwd=fitted)
    with served(fitted / "explored.index") as found:
        yield found


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browser() as started:
        yield started


@pytest.fixture
def tab(chromium: Browser, address: str) -> Iterator[NewTab]:
    """Opens tabs; when the test is over none of them may have complained or asked another server."""
    opened: list[Tab] = []

    def new(**options: object) -> Tab:
        opened.append(Tab(chromium, address, **options))  # type: ignore[arg-type]
        return opened[-1]

    yield new
    for one in opened:
        one.close()


@pytest.fixture(scope="session")
def shots(tmp_path_factory: pytest.TempPathFactory) -> Path:
    kept = os.environ.get("EIGENMAP_SCREENSHOTS")
    return Path(kept) if kept else tmp_path_factory.mktemp("screenshots")


def test_the_slider_changes_results_and_address_and_a_reload_restores_them(tab: NewTab, shots: Path) -> None:
    first = tab()
    page = first.open("dim=16&top=12")
    first.until(RESULTS, 12)
    long = first.results()
    page.locator("#dim").focus()
    page.keyboard.press("Home")
    first.until(OTHERS, long)
    assert first.state()["dim"] == "1"
    assert page.locator("#dim-text").inner_text().split() == ["1", "of", "16", "features"]
    assert "1 of 16" in str(page.locator("#dim").get_attribute("aria-valuetext"))
    assert "4 bytes" in page.locator("#memory").inner_text()
    assert page.locator("#facts-a").inner_text().count("new ") == 1
    fresh = page.locator("#results-a .item.fresh").evaluate_all("all => all.map(one => one.dataset.key)")
    assert sorted(fresh) == sorted(set(first.results()) - set(long)) and fresh
    first.shot(shots, "slider")
    short, state = first.results(), first.state()
    page.reload()
    first.until(RESULTS, 12)
    assert (first.results(), first.state()) == (short, state)
    page.locator("#dim").fill("1000")  # as a drag to the far end does
    first.until(OTHERS, short)
    assert first.results() == long and first.state()["dim"] == "16"


def test_a_click_on_a_result_searches_by_it_and_back_returns(tab: NewTab) -> None:
    one = tab()
    page = one.open("dim=8&top=12")
    one.until(RESULTS, 12)
    before, key = one.results(), one.state()["key"]
    page.locator("#results-a .item").nth(3).click()
    one.until(OTHERS, before)
    assert one.state()["key"] == before[3] != key
    page.go_back()
    one.until(
        "before => String([...document.querySelectorAll('#results-a .item')].map(i => i.dataset.key)) === `${before}`",
        before,
    )
    assert one.state()["key"] == key


@pytest.mark.parametrize("way", ["pick", "drop", "paste"])
def test_a_picture_is_searched_by_and_survives_a_reload(tab: NewTab, shots: Path, way: str) -> None:
    one = tab()
    page = one.open("dim=16&top=12")
    one.until(RESULTS, 12)
    picture = encoded("PNG", 60, 60, seed=5)
    if way == "pick":
        page.set_input_files("#file", {"name": "green.png", "mimeType": "image/png", "buffer": picture})
    else:
        event = {"drop": "new DragEvent('drop', {dataTransfer: d, bubbles: true, cancelable: true})",
                 "paste": "new ClipboardEvent('paste', {clipboardData: d, bubbles: true})"}[way]  # fmt: skip
        page.evaluate(
            f"bytes => {{ const d = new DataTransfer(); d.items.add(new File([new Uint8Array(bytes)], 'green.png', "
            f"{{type: 'image/png'}})); document.dispatchEvent({event}); }}",
            list(picture),
        )
    one.until("() => document.querySelector('#query-name').textContent === 'green.png'")
    one.until(RESULTS, 12)
    assert "vector" in one.state() and "key" not in one.state()
    labels = page.locator("#results-a .label").all_inner_texts()
    assert labels.count("disc") >= 8  # a green disc was searched by
    assert page.locator("#query-picture img").get_attribute("src", timeout=5000).startswith("data:image/jpeg")  # type: ignore[union-attr]
    one.shot(shots, f"upload-{way}")
    found = one.results()
    page.reload()
    one.until(RESULTS, 12)
    assert one.results() == found and page.locator("#query-name").inner_text() == "green.png"


def test_all_conditions_hold_for_a_picture_too(tab: NewTab) -> None:
    """A search by a picture sends them in another form than one by an item."""
    one = tab()
    page = one.open("dim=16&top=48")
    one.until(RESULTS, 48)
    page.set_input_files("#file", {"name": "green.png", "mimeType": "image/png", "buffer": encoded("PNG", seed=5)})
    one.until("() => document.querySelector('#query-name').textContent === 'green.png'")
    page.locator("#where").fill("label!=disc label!=bars")
    page.keyboard.press("Enter")
    one.until("n => document.querySelectorAll('#results-a .item').length === n", 20)
    assert {text.split()[-1] for text in page.locator("#results-a .label").all_inner_texts()} == {"stripes"}


def test_the_page_follows_when_the_index_is_replaced_by_one_of_another_model(
    chromium: Browser, fitted: Path, second_model: Path, tmp_path: Path
) -> None:
    place = tmp_path / "photos.index"
    eigenmap("index", "runs/mine", "PHOTOS", "--out", place, cwd=fitted)
    with served(place) as address:
        one = Tab(chromium, address)
        page = one.open("dim=16&top=12")
        one.until(RESULTS, 12)
        page.set_input_files("#file", {"name": "green.png", "mimeType": "image/png", "buffer": encoded("PNG", seed=5)})
        one.until("() => document.querySelector('#query-name').textContent === 'green.png'")
        one.until(RESULTS, 12)
        eigenmap("index", second_model, "PHOTOS", "--out", place, "--force", cwd=fitted)
        set_dim = "dim => { window.location.hash = window.location.hash.replace(/dim=[0-9]+/, `dim=${dim}`); }"
        for dim in cycle((1, 16)):  # busy at first; then the page is new, and the picture's code of the old model
            with suppress(Error):  # the page is being loaded
                page.evaluate(set_dim, dim)
                page.wait_for_timeout(500)
                if "another model" in page.locator("#said").inner_text():
                    break
        assert page.locator("#about").inner_text().endswith("8 features")
        page.locator("#surprise").click()
        one.until(RESULTS, 12)
        one.until("() => !document.querySelector('#said').classList.contains('problem')")
        assert "vector" not in one.state()
        one.complaints.clear()  # of the browser, about the answers 503 and 409
        one.close()


def test_a_file_that_is_no_picture_is_answered_by_a_sentence(tab: NewTab) -> None:
    one = tab()
    page = one.open()
    one.until(RESULTS, 24)
    page.set_input_files("#file", {"name": "a.png", "mimeType": "image/png", "buffer": b"no picture"})
    one.until("() => document.querySelector('#said').textContent.includes('JPEG')")
    assert page.locator("#said").get_attribute("class") == "quiet problem"
    one.complaints = [text for text in one.complaints if "415" not in text]  # the browser says so too


def test_two_lengths_and_random_features_are_compared(tab: NewTab, shots: Path) -> None:
    one = tab()
    page = one.open("dim=2&top=12")
    one.until(RESULTS, 12)
    page.locator("#compare").select_option("length")
    one.until("() => document.querySelectorAll('#results-b .item').length === 12")
    assert one.state()["compare"] == "length"
    first, second = one.results(), one.results("b")
    for panel, own, other in (("a", first, second), ("b", second, first)):
        marked = page.locator(f"#results-{panel} .item.fresh").evaluate_all("all => all.map(one => one.dataset.key)")
        assert sorted(marked) == sorted(set(own) - set(other))
        assert f"{len(marked)} only" in page.locator(f"#facts-{panel}").inner_text()
    page.locator("#dim2").focus()
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    one.until("() => document.querySelector('#panel-b').textContent === '2 features'")
    assert one.results("b") == one.results() and one.state()["dim2"] == "2"
    page.locator("#compare").select_option("random")
    one.until("() => document.querySelector('#panel-b').textContent.includes('2 random')")
    assert one.results("b") != one.results()
    one.shot(shots, "compare")
    page.reload()
    one.until("() => document.querySelector('#panel-b').textContent.includes('2 random')")


def test_a_filter_and_the_charts(tab: NewTab) -> None:
    one = tab()
    page = one.open("dim=4&top=48")
    one.until(RESULTS, 48)
    page.locator("#where").fill("label=bars")
    page.keyboard.press("Enter")
    one.until("() => [...document.querySelectorAll('#results-a .label')].every(l => l.textContent.endsWith('bars'))")
    assert one.state()["where"] == "label=bars" and 19 <= len(one.results()) <= 20
    one.until("() => document.querySelector('#quality svg')")
    assert "at 4 features" in (page.locator("#quality svg").get_attribute("aria-label") or "")
    assert "of feature 4" in (page.locator("#spectrum svg").get_attribute("aria-label") or "")
    assert page.locator("#quality .mark").count() == page.locator("#spectrum .mark").count() == 1
    page.locator("#where").fill("label=coat")
    page.keyboard.press("Enter")
    one.until("() => document.querySelector('#facts-a').textContent.includes('no item')")
    page.locator("#where").fill("lable=bars")
    page.keyboard.press("Enter")
    one.until("() => document.querySelector('#facts-a').textContent.includes('fields are label')")
    page.locator("#where").fill("bars")
    page.keyboard.press("Enter")
    one.until("() => document.querySelector('#said').textContent.includes('condition')")
    one.complaints = [text for text in one.complaints if "422" not in text]


def test_the_gallery_and_the_collection_sorted(tab: NewTab, shots: Path) -> None:
    one = tab()
    page = one.open("view=gallery")
    one.until("() => document.querySelectorAll('.feature').length === 16")
    assert page.locator(".feature").first.locator(".strip button").count() == 16
    assert page.locator(".feature").first.locator("svg .bar").count() == 48
    one.shot(shots, "gallery")
    page.locator(".feature .head").nth(1).click()
    one.until("() => document.querySelectorAll('#sorted-items .item').length === 60")
    assert one.state()["feature"] == "2" and "feature 2" in page.locator("#sorted-title").inner_text()
    values = [float(text) for text in page.locator("#sorted-items .caption span:last-child").all_inner_texts()]
    assert values == sorted(values, reverse=True)
    one.shot(shots, "sorted")
    page.locator("#sorted-first").select_option("least")
    one.until(
        "v => Number(document.querySelector('#sorted-items .caption span:last-child')?.textContent) === v", values[-1]
    )
    page.reload()
    one.until(
        "v => Number(document.querySelector('#sorted-items .caption span:last-child')?.textContent) === v", values[-1]
    )
    page.locator("#sorted-items .item").first.click()
    one.until(RESULTS, 24)
    assert "view" not in one.state()


def test_the_map_moves_and_opens_items(tab: NewTab, shots: Path) -> None:
    one = tab()
    page = one.open("view=map")
    one.until("() => document.querySelector('#map-said').textContent.includes('pictures')")
    page.locator("#map-y").select_option("3")
    one.until("() => location.hash.includes('y=3')")
    box = page.locator("#map").bounding_box()
    assert box is not None
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + 90, y - 40, steps=4)
    page.mouse.up()
    one.until("() => location.hash.includes('at=')")
    moved = one.state()["at"]
    page.mouse.wheel(0, -400)
    one.until("before => !decodeURIComponent(location.hash).includes(before)", moved)
    assert float(one.state()["at"].split(",")[2]) > 1
    one.shot(shots, "map")
    state = one.state()
    page.reload()
    one.until("() => document.querySelector('#map-said').textContent.includes('pictures')")
    assert one.state() == state
    page.locator("#map-home").click()
    one.until("() => !location.hash.includes('at=')")
    page.locator("#map").focus()
    page.keyboard.press("+")
    page.keyboard.press("ArrowLeft")
    one.until("() => location.hash.includes('at=')")
    page.keyboard.press("Enter")  # the item in the middle
    one.until(RESULTS, 24)
    assert "view" not in one.state()


def test_everything_is_reached_by_keyboard(tab: NewTab) -> None:
    one = tab()
    page = one.open("dim=4&top=12")
    one.until(RESULTS, 12)
    seen: list[str] = []
    for _ in range(40):
        page.keyboard.press("Tab")
        seen.append(str(page.evaluate("() => document.activeElement.id || document.activeElement.className")))
        if seen[-1] == "item" or seen[-1].startswith("item "):
            break
    wanted = ["tab-search", "theme", "pick", "surprise", "dim", "compare", "top", "where"]
    assert [name for name in seen if name in wanted] == wanted and seen[-1].startswith("item")
    before = one.results()
    page.keyboard.press("Enter")
    one.until(OTHERS, before)
    assert one.state()["key"] == before[0]
    page.keyboard.press("]")
    one.until("() => location.hash.includes('dim=5')")
    page.keyboard.press("c")
    one.until("() => location.hash.includes('compare=length')")
    page.keyboard.press("2")
    one.until("() => !document.querySelector('#view-gallery').hidden && document.querySelector('.feature')")
    page.locator("#tab-gallery").focus()
    page.keyboard.press("ArrowRight")
    one.until("() => !document.querySelector('#view-map').hidden")
    assert page.evaluate("() => document.activeElement.id") == "tab-map"


@pytest.mark.parametrize("view", ["", "view=gallery", "view=map"])
def test_a_phone_shows_everything_without_scrolling_sideways(tab: NewTab, shots: Path, view: str) -> None:
    one = tab(width=390, height=844)
    page = one.open(f"{view}&dim=4&top=12&compare=random")
    ready = {"": "#results-b .item", "view=gallery": ".feature img", "view=map": "#legend li"}[view]
    page.locator(ready).first.wait_for()
    for width in (320, 390):  # the smallest that are sold, and a common one
        page.set_viewport_size({"width": width, "height": 844})
        one.until("width => innerWidth === width", width)
        assert page.evaluate("() => document.documentElement.scrollWidth") <= width
    small = page.locator("button:visible").evaluate_all("all => all.map(one => one.getBoundingClientRect().height)")
    assert min(small) >= 24  # large enough for a finger
    one.shot(shots, f"phone-{view.removeprefix('view=') or 'search'}")


def test_dark_follows_the_system_and_the_button(tab: NewTab, shots: Path) -> None:
    one = tab(dark=True)
    page = one.open()
    one.until(RESULTS, 24)
    assert page.evaluate("() => document.documentElement.dataset.theme") == "dark"
    one.shot(shots, "dark")
    page.locator("#theme").click()
    assert page.evaluate("() => document.documentElement.dataset.theme") == "light"
    page.reload()
    assert page.locator("#theme").inner_text() == "◐ Light"


def test_on_a_phone_slider_and_results_are_on_screen_together(tab: NewTab, shots: Path) -> None:
    one = tab(width=390, height=844)
    page = one.open("dim=4&top=48")
    one.until(RESULTS, 48)
    assert not page.locator("#charts").is_visible() and not page.locator("#where").is_visible()
    on_screen = "id => { const box = document.querySelector(id).getBoundingClientRect(); return box.top >= 0 && box.bottom <= innerHeight; }"  # noqa: E501
    assert page.evaluate(on_screen, "#dim") and page.evaluate(on_screen, "#results-a .item")
    page.evaluate("() => scrollTo(0, document.body.scrollHeight)")
    one.until("() => scrollY > 400")
    assert page.evaluate(on_screen, "#dim")
    assert page.locator(".length").evaluate("box => box.getBoundingClientRect().height") < 844 / 8
    page.evaluate("() => scrollTo(0, 0)")
    for part in ("charts", "tools"):
        fold = page.locator(f".fold[aria-controls={part}]")
        fold.click()
        assert fold.get_attribute("aria-expanded") == "true"
    assert page.locator("#charts").is_visible() and page.locator("#where").is_visible()
    one.until("() => document.querySelector('#quality svg')")
    one.shot(shots, "phone-unfolded")
    page.reload()
    one.until(RESULTS, 48)
    assert not page.locator("#where").is_visible()


@pytest.mark.parametrize("width", [390, 1280])
def test_labels_and_charts_can_be_read(tab: NewTab, width: int) -> None:
    one = tab(width=width)
    page = one.open("dim=4&top=12")
    one.until(RESULTS, 12)
    if width < 600:
        page.locator(".fold[aria-controls=charts]").click()
    one.until("() => document.querySelector('#quality svg')")
    cut = (
        "all => all.filter(one => one.scrollWidth > one.clientWidth || one.scrollHeight > one.clientHeight + 1).length"
    )
    assert page.locator("#results-a .label").evaluate_all(cut) == 0
    sizes = page.locator(".chart svg text").evaluate_all(
        "all => all.map(t => parseFloat(getComputedStyle(t).fontSize) * t.getScreenCTM().a)"
    )
    assert min(sizes) >= 10.5


def test_a_filter_acts_while_it_is_typed_and_an_error_leaves_no_old_results(tab: NewTab) -> None:
    one = tab()
    page = one.open("dim=4&top=12")
    one.until(RESULTS, 12)
    page.locator("#where").press_sequentially("label=bars", delay=20)
    one.until("() => [...document.querySelectorAll('#results-a .label')].every(l => l.textContent.endsWith('bars'))")
    one.until("() => location.hash.includes('bars')")
    assert page.locator("#where").get_attribute("aria-invalid") is None
    page.locator("#where").fill("bars")
    one.until("() => document.querySelector('#where').getAttribute('aria-invalid') === 'true'")
    assert one.results() == [] and page.locator("#facts-a").inner_text() == ""
    assert "condition" in page.locator("#said").inner_text()
    page.locator("#where").fill("label=stripes")
    one.until("() => document.querySelector('#results-a .item')")
    assert page.locator("#where").get_attribute("aria-invalid") is None
    assert {text.split()[-1] for text in page.locator("#results-a .label").all_inner_texts()} == {"stripes"}


def test_pictures_are_enlarged_one_after_the_other(tab: NewTab, shots: Path) -> None:
    one = tab()
    page = one.open("dim=4&top=12")
    one.until(RESULTS, 12)
    names = [str(name) for name in page.locator("#results-a img").evaluate_all("all => all.map(one => one.alt)")]
    page.locator("#results-a .item").first.hover()
    page.locator("#results-a .enlarge").first.click()
    assert page.locator("#enlarged").is_visible() and page.locator("#enlarged-name").inner_text() == names[0]
    page.keyboard.press("ArrowRight")
    assert page.locator("#enlarged-name").inner_text() == names[1]
    shown = page.locator("#enlarged-picture img").evaluate("one => one.getBoundingClientRect().width")
    assert shown > 300
    one.shot(shots, "enlarged")
    page.keyboard.press("Escape")
    assert not page.locator("#enlarged").is_visible()
    page.locator("#results-a .item").nth(2).focus()
    page.keyboard.press("e")
    assert page.locator("#enlarged-name").inner_text() == names[2]
    before = one.results()
    page.locator("#enlarged-search").click()
    one.until(OTHERS, before)
    assert one.state()["key"] == before[2] and not page.locator("#enlarged").is_visible()
    page.locator("#query-picture").click()
    assert page.locator("#enlarged-name").inner_text() == names[2]
