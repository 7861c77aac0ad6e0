from __future__ import annotations

from dataclasses import replace

import torch

from eigenmap.fitting.images import fit_images
from eigenmap.reproduce import load_sets, recipe_of
from eigenmap.reproduce.encoding import outputs_of
from eigenmap.spectrum import unit_rms_rows


def test_outputs_are_those_of_the_model_and_whole_pictures_show_their_middle() -> None:
    images = load_sets("tiny", None).test
    model = fit_images(images, recipe=recipe_of("scl", "tiny"), batch_size=16, steps=2, device="cpu", progress=False)
    raw = torch.cat(list(model.raw(images.pixels, source="projector")))
    torch.testing.assert_close(unit_rms_rows(outputs_of(model, images, "projector", batch_size=7)), raw)
    # Twice as wide as high: what the network sees is the middle half of the columns.
    squeezed = replace(images, aspects=torch.full((len(images),), 2.0))
    stretched = images.pixels[:, :, :, 4:12].float()
    wide = torch.nn.functional.interpolate(stretched, (16, 16), mode="bilinear", align_corners=False)
    seen = model.image.standardisation(wide / 255)
    with torch.no_grad():
        expected, _ = model.network(seen)
    torch.testing.assert_close(outputs_of(model, squeezed, "encoder"), expected, atol=0.05, rtol=0.05)
