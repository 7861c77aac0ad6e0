from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from eigenmap.augment.views import TwoViews
from eigenmap.core.errors import EigenmapError
from eigenmap.data import ImageSet, Labels
from eigenmap.evaluation import monitor
from eigenmap.evaluation.monitor import classes_of, knn_monitor
from eigenmap.evaluation.neighbours import knn_accuracy

CPU = torch.device("cpu")


class Pixels(nn.Module):
    """Features are the pixels themselves; remembers how many images it saw."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[int] = []

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        self.seen.append(len(x))
        return x.flatten(1), x.flatten(1)


def images(count: int) -> Tensor:
    return torch.randint(256, (count, 1, 4, 4), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))


def test_held_out_images_are_classified_by_training_images_that_have_a_label() -> None:
    pixels, views = images(60), TwoViews("weak", 4)
    classes = torch.arange(60) % 4 - 1  # every fourth image has none
    train, held = torch.arange(40), torch.arange(40, 60)
    found = knn_monitor(pixels, classes, train, held, views, CPU)(Pixels(), 7)
    train, held = train[classes[train] >= 0], held[classes[held] >= 0]
    features = views.plain(pixels).flatten(1)
    assert found == {"knn": knn_accuracy(features[held], classes[held], features[train], classes[train])}


def test_a_large_training_set_is_thinned_evenly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(monitor, "MONITORED_IMAGES", 10)
    network = Pixels()
    knn_monitor(images(60), torch.arange(60) % 2, torch.arange(50), torch.arange(50, 60), TwoViews("weak", 4), CPU)(
        network, 1
    )
    assert network.seen == [10, 10]


def test_what_cannot_be_monitored_is_refused() -> None:
    with pytest.raises(EigenmapError, match="monitor"):
        classes_of(ImageSet(images(2), ["a", "b"]))
    assert classes_of(ImageSet(images(2), ["a", "b"], Labels.from_names([["x"], []]))).tolist() == [0, -1]
    rows = torch.arange(2), torch.arange(2, 4)
    with pytest.raises(EigenmapError, match=r"few.*label"):
        knn_monitor(images(4), torch.tensor([0, 1, -1, -1]), *rows, TwoViews("weak", 4), CPU)
