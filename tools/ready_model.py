"""The trained model in the wheel, for `eigenmap demo --ready`.

    python tools/ready_model.py            # minutes on one core: train again, write src/eigenmap/demo/ready/

The settings are those of the recipe `catalogue`, seed 0, on the pictures of the catalogue as they are. Run it after a
change of the default code of images; tests compare what the model finds with what its `ready.json` records.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path

import eigenmap as em
from eigenmap.data.images import catalogue
from eigenmap.demo import ready

FILES = ("model.json", "model.safetensors")


def main() -> None:
    """Train, measure on the catalogue's queries, and store the model with its scores."""
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        model = em.fit_images(catalogue.load("train"), recipe="catalogue", seed=0, device="cpu", out=run, say=print)
        ready.FOLDER.mkdir(exist_ok=True)
        for name in FILES:
            shutil.copyfile(run / name, ready.FOLDER / name)
    text = json.dumps(ready.measure(model), indent=2) + "\n"
    (ready.FOLDER / ready.SCORES).write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
