from __future__ import annotations

import json
from dataclasses import asdict, replace

import pytest

from eigenmap.core.errors import EigenmapError
from eigenmap.relations import POLICIES, Augmentation, policy


def test_recipes_are_those_of_their_papers() -> None:
    first, second = policy("barlow_twins")
    assert (first.blur, second.blur) == (1.0, 0.1)
    assert (first.solarise, second.solarise) == (0.0, 0.2)
    for settings in (first, second):
        assert (settings.brightness, settings.contrast, settings.saturation, settings.hue) == (0.4, 0.4, 0.2, 0.1)
        assert (settings.jitter, settings.grey, settings.flip, settings.scale) == (0.8, 0.2, 0.5, (0.08, 1.0))
        assert settings.interpolation == "bicubic"
    assert policy("cifar") == tuple(replace(settings, blur=0.0) for settings in (first, second))
    simclr, other = policy("simclr")
    assert simclr == other
    assert (simclr.brightness, simclr.contrast, simclr.saturation, simclr.hue) == (0.8, 0.8, 0.8, 0.2)
    assert (simclr.blur, simclr.grey, simclr.solarise) == (0.5, 0.2, 0.0)
    weak, other = policy("weak")
    assert weak == other
    assert (weak.scale, weak.flip, weak.rotation) == ((0.75, 1.0), 0.5, 5.0)
    assert (weak.jitter, weak.brightness, weak.contrast, weak.saturation, weak.hue) == (1.0, 0.3, 0.3, 0.0, 0.0)
    assert (weak.grey, weak.blur, weak.solarise) == (0.0, 0.0, 0.0)


def test_unknown_name() -> None:
    with pytest.raises(EigenmapError, match=r"'strong'.*weak.*barlow_twins"):
        policy("strong")


@pytest.mark.parametrize("name", POLICIES)
def test_settings_survive_json(name: str) -> None:
    for settings in policy(name):
        assert Augmentation(**json.loads(json.dumps(asdict(settings)))) == settings


@pytest.mark.parametrize(
    "wrong",
    [
        {"scale": (0.0, 1.0)},
        {"scale": (0.5, 1.1)},
        {"scale": (0.9, 0.5)},
        {"ratio": (-1.0, 1.0)},
        {"blur_sigma": (0.0, 1.0)},
        {"flip": 1.5},
        {"solarise": -0.1},
        {"brightness": -0.1},
        {"rotation": -5.0},
        {"hue": 0.6},
        {"interpolation": "nearest"},
    ],
    ids=str,
)
def test_impossible_settings_are_refused_by_name(wrong: dict[str, object]) -> None:
    with pytest.raises(EigenmapError, match=next(iter(wrong))):
        Augmentation(**wrong)  # type: ignore[arg-type]
