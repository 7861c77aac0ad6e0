"""Supervised encoder, the reference for transfer."""

from __future__ import annotations

import math

import torch
from torch import nn
from torch.nn import functional

from eigenmap.augment.views import TwoViews
from eigenmap.data import ImageSet
from eigenmap.networks import build_encoder
from eigenmap.networks.network import encoder_width
from eigenmap.recipes import Recipe
from eigenmap.reproduce.ablations import image_task
from eigenmap.training.config import Accelerator

RATE, MOMENTUM, DECAY = 0.1, 0.9, 5e-4


def supervised_encoder(recipe: Recipe, images: ImageSet, seed: int, device: Accelerator = "auto") -> nn.Module:
    """Train encoder and classifier by cross-entropy with a recipe's views, batch size and epochs, on one device.

    The optimizer is SGD with momentum: rate 0.1 per 256 views, warm-up over a tenth of the steps, cosine decay.
    """
    assert images.labels is not None
    place = torch.device("cuda" if device != "cpu" and torch.cuda.is_available() else "cpu")
    image = image_task(recipe, images, seed).image
    torch.manual_seed(seed)
    encoder = build_encoder(recipe.encoder, images.channels, image.view_size, recipe.stem).to(place).train()
    classifier = nn.Linear(encoder_width(encoder), images.labels.n_classes).to(place)
    parameters = [*encoder.parameters(), *classifier.parameters()]
    batch = min(recipe.batch_size, len(images))
    rate = RATE * 2 * batch / 256
    optimizer = torch.optim.SGD(parameters, rate, MOMENTUM, weight_decay=DECAY)
    views = TwoViews(recipe.views, image.view_size, image.standardisation, image.view_size / image.size)
    y = images.labels.to_integers()
    generator = torch.Generator().manual_seed(seed)
    per_epoch = max(1, len(images) // batch)
    steps = max(1, round(recipe.epochs * per_epoch))
    order = torch.empty(0, dtype=torch.long)
    for step in range(steps):
        if step % per_epoch == 0:
            order = torch.randperm(len(images), generator=generator)
        rows = order[step % per_epoch * batch :][:batch]
        rising = min(1.0, (step + 1) / max(1.0, 0.1 * steps))
        optimizer.param_groups[0]["lr"] = rate * rising * 0.5 * (1 + math.cos(math.pi * step / steps))
        shapes = None if images.aspects is None else images.aspects[rows]
        pair = views(images.pixels[rows].to(place), generator, shapes)
        with torch.autocast(place.type, torch.bfloat16, enabled=place.type == "cuda"):
            scores = classifier(encoder(torch.cat(pair)))
        loss = functional.cross_entropy(scores.float(), y[rows].to(place).repeat(2))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    return encoder.eval().cpu()
