"""A real browser in front of a real server: what the explorer's tests stand on."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from playwright.sync_api import Browser, Page, Request, sync_playwright

from tests.end_to_end.process import finish, serving

CHROMIUM = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), ""
)


@contextmanager
def served(*args: object) -> Iterator[str]:
    """`eigenmap serve ARGS` on a free port; its address."""
    with serving(*args) as (process, address):
        yield address
        process.terminate()
        errors = finish(process).err
    assert "Traceback" not in errors and "Error" not in errors, errors


@contextmanager
def browser() -> Iterator[Browser]:
    """Chromium without a window."""
    assert CHROMIUM, "these tests need chromium: on Debian, apt-get install chromium"
    sandbox = [] if os.geteuid() else ["--no-sandbox"]  # root has none
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=sandbox)
        yield started
        started.close()


class Tab:
    """A page that remembers every complaint of the browser and every request that left the server."""

    def __init__(
        self, chromium: Browser, address: str, width: int = 1280, height: int = 860, dark: bool = False
    ) -> None:
        self.address = address
        self.context = chromium.new_context(
            viewport={"width": width, "height": height}, color_scheme="dark" if dark else "light", has_touch=width < 600
        )
        self.page: Page = self.context.new_page()
        self.page.set_default_timeout(120_000)  # nothing takes long, except on a busy machine
        self.complaints: list[str] = []
        self.elsewhere: list[str] = []
        self.page.on("console", lambda message: self._heard(message.type, message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", self._asked)

    def _heard(self, kind: str, text: str) -> None:
        if kind in ("error", "warning"):
            self.complaints.append(text)

    def _asked(self, request: Request) -> None:
        if not request.url.startswith((self.address, "data:", "blob:")):
            self.elsewhere.append(request.url)

    def open(self, state: str = "") -> Page:
        self.page.goto(f"{self.address}#{state}")
        return self.page

    def state(self) -> dict[str, str]:
        """What is after the # of the address."""
        words = parse_qs(urlsplit(self.page.url).fragment)
        return {name: values[0] for name, values in words.items()}

    def results(self, panel: str = "a") -> list[str]:
        """Keys of the results on display."""
        found = self.page.locator(f"#results-{panel} .item").evaluate_all("all => all.map(one => one.dataset.key)")
        return [str(key) for key in found]

    def until(self, condition: str, argument: object = None) -> None:
        self.page.wait_for_function(condition, arg=argument)

    def shot(self, folder: Path, name: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.page.screenshot(path=folder / f"{name}.png")

    def close(self) -> None:
        self.context.close()
        assert (self.complaints, self.elsewhere) == ([], [])
