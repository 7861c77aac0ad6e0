"""One look: files that can be opened, colours that follow the page, nothing global left behind."""

from __future__ import annotations

import errno
import io
import threading
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import matplotlib
import pytest
from PIL import Image

from eigenmap.core.errors import EigenmapError
from eigenmap.figures import style


def drawing() -> matplotlib.figure.Figure:
    figure = style.new_figure(3, 2)
    axes = style.add_axes(figure, title="A & B", xlabel="x", ylabel="y")
    axes.plot([1, 2], [0.1, 0.9], label="ours", **style.series_style("ours"))
    axes.plot([1, 2], [0.2, 0.5], label="other", **style.series_style("of my own", 1))
    style.add_legend(figure, axes, columns=2)
    style.write_text(axes, 1, 0.5, "a remark")
    return figure


def test_save_writes_an_svg_and_a_png(tmp_path: Path) -> None:
    svg, png = style.save(drawing(), tmp_path / "new" / "curve")
    assert (svg.name, png.name) == ("curve.svg", "curve.png")
    assert ElementTree.parse(svg).getroot().tag.endswith("svg")
    with Image.open(png) as image:
        assert image.size == (480, 320)
        assert len(image.convert("RGB").getcolors(100_000) or []) > 10


def test_text_stays_text_and_the_same_figure_gives_the_same_file() -> None:
    assert ">A &amp; B</text>" in style.svg(drawing())
    assert style.svg(drawing()) == style.svg(drawing())
    assert style.png(drawing()) == style.png(drawing())


def test_inline_refers_to_the_colours_of_the_page() -> None:
    text = style.inline(drawing(), 'curve "one" & two')
    root = ElementTree.fromstring(text)
    assert root.attrib["role"] == "img"
    assert root.attrib["aria-label"] == 'curve "one" & two'
    assert "width" not in root.attrib and "viewBox" in root.attrib
    for variable in ("--fig-0072b2", "--fig-1b1f24", "--fig-dde1e6"):
        assert f"var({variable})" in text
        assert f"{variable}:" in style.css_variables() and f"{variable}:" in style.css_variables(dark=True)
    assert "#0072b2" not in text
    assert style.css_variables() != style.css_variables(dark=True)


def test_two_inline_figures_share_no_id() -> None:
    ids = [
        {element.attrib["id"] for element in ElementTree.fromstring(text).iter() if "id" in element.attrib}
        for text in (style.inline(drawing(), "first"), style.inline(drawing(), "second"))
    ]
    assert ids[0] and not ids[0] & ids[1]
    text = style.inline(drawing(), "first")
    used = {part.split('"')[0] for part in text.split('href="#')[1:]}
    assert used and used <= ids[0]


def test_every_series_differs_in_more_than_colour() -> None:
    looks = [*style.LOOKS.values()]
    assert len({(look.marker, look.linestyle) for look in looks}) == len(looks)
    assert len({look.color for look in looks}) == len(looks)


def test_settings_of_the_caller_are_left_alone() -> None:
    before = dict(matplotlib.rcParams)
    style.png(drawing())
    assert dict(matplotlib.rcParams) == before


def test_png_is_on_white() -> None:
    with Image.open(io.BytesIO(style.png(drawing()))) as image:
        assert image.convert("RGB").getpixel((1, 1)) == (255, 255, 255)


def test_an_unwritable_place_is_one_clear_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(EigenmapError, match=r"file/curve.*written"):
        style.save(drawing(), tmp_path / "file" / "curve")


def test_text_of_users_is_taken_literally_in_any_script() -> None:
    figure = style.new_figure(3, 2)
    axes = style.add_axes(figure, title="5$ and 6$", xlabel="猫", ylabel="caf\udce9")
    style.write_text(axes, 0, 0, r"$\frac$ <b>")
    text = style.svg(figure)
    for part in ("5$ and 6$", "猫", "caf?", r"$\frac$ &lt;b&gt;"):
        assert part in text
    assert len(style.png(figure)) > 1_000


def test_seven_numbered_series_differ() -> None:
    looks = [style.numbered_look(number) for number in range(7)]
    assert len({(str(look["linestyle"]), look["marker"], look["color"]) for look in looks}) == 7


def test_a_disk_that_is_full_leaves_no_half_figure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(partial: Path, content: bytes) -> int:
        partial.touch()
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(EigenmapError, match="No space left"):
        style.save(drawing(), tmp_path / "curve")
    assert list(tmp_path.iterdir()) == []


def test_threads_that_draw_at_once_do_not_interfere() -> None:
    before, seen = dict(matplotlib.rcParams), []
    entered, left = threading.Event(), threading.Event()

    def draw() -> None:
        with style.styled():
            entered.set()
            left.wait(10)
            seen.append(matplotlib.rcParams["axes.grid"])

    thread = threading.Thread(target=draw)
    with style.styled():
        thread.start()
        entered.wait(0.2)
    left.set()
    thread.join()
    assert seen == [True]
    assert dict(matplotlib.rcParams) == before
