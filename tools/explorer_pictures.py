"""Pictures of the explorer for README and docs/explorer.md, taken of the trained model in the package.

python tools/explorer_pictures.py     # needs chromium and playwright; writes docs/images/explorer-*.png
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

IMAGES = Path(__file__).resolve().parents[1] / "docs" / "images"
CHROMIUM = "/usr/bin/chromium"
SIZE = {"width": 1440, "height": 900}
VIEWS = {"compare": "#compare=random&dim=8", "gallery": "#view=gallery", "map": "#view=map"}
"""What follows the address, by the name of the picture."""
WAIT_MS = 6_000
"""Time for charts and thumbnails."""


def main() -> None:
    """Serve the trained model's index, and take one picture per view."""
    from PIL import Image
    from playwright.sync_api import sync_playwright

    command = [sys.executable, "-c", "from eigenmap.cli import main; main()"]
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([*command, "demo", "--ready", "--quiet"], cwd=folder, check=True)
        serve = [*command, "serve", "runs/ready/catalogue.index", "--port", "0"]
        server = subprocess.Popen(serve, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        try:
            address = _address(server)
            with sync_playwright() as playwright:
                browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
                for name, state in VIEWS.items():
                    page = browser.new_page(viewport=SIZE, color_scheme="light")
                    page.goto(f"{address}/{state}")
                    page.wait_for_timeout(WAIT_MS)
                    target = IMAGES / f"explorer-{name}.png"
                    page.screenshot(path=str(target))
                    Image.open(target).convert("RGB").quantize(256).save(target, optimize=True)
                    page.close()
                    print(target.name)
                browser.close()
        finally:
            server.terminate()
            server.wait(20)


def _address(server: subprocess.Popen[str]) -> str:
    """Return the address that the server prints."""
    for line in server.stdout or ():
        if found := re.search(r"http://[\w.]+:\d+", line):
            return found[0]
    raise SystemExit("the server did not start")


if __name__ == "__main__":
    main()
