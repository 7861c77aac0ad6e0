from __future__ import annotations

import pytest

from eigenmap.core.errors import EigenmapError
from eigenmap.objectives import (
    OBJECTIVES,
    GramNeuralEF,
    Matryoshka,
    NeuralEF,
    SpectralContrastive,
    build,
)


def test_names() -> None:
    assert set(OBJECTIVES) == {
        "neuralef",
        "neuralef-unordered",
        "neuralef-ratio",
        "neuralef-shifted",
        "neuralef-gram",
        "scl",
        "scl-clipped",
        "barlow-twins",
        "vicreg",
        "simclr",
        "nt-logistic",
        "nested",
        "matryoshka-scl",
        "info-nce",
        "matryoshka-info-nce",
        "ritz-trace",
        "ritz-logdet",
        "swav",
        "moco",
        "byol",
        "scl-taught",
        "simsiam",
    }


def test_names_stand_for_forms() -> None:
    assert isinstance(build("neuralef"), NeuralEF)
    assert isinstance(build("neuralef-gram"), GramNeuralEF)
    unordered, ratio, shifted = (build(f"neuralef-{form}") for form in ("unordered", "ratio", "shifted"))
    assert isinstance(unordered, NeuralEF) and not unordered.ordered and unordered.alpha == "paper"
    assert isinstance(ratio, NeuralEF) and ratio.ratio and ratio.alpha == 1.0
    assert isinstance(shifted, NeuralEF) and shifted.shift == 0.5 and shifted.alpha > 1 / (4 * shifted.shift)
    clipped = build("scl-clipped")
    assert isinstance(clipped, SpectralContrastive) and clipped.rows == "clipped"


def test_options_reach_the_constructor() -> None:
    objective = build("neuralef-ratio", alpha=2, small=0.1)
    assert isinstance(objective, NeuralEF) and (objective.alpha, objective.small) == (2.0, 0.1)
    nested = build("matryoshka-scl", lengths=[2, 4], scale=3.0)
    assert isinstance(nested, Matryoshka) and nested.lengths == [2, 4]
    assert isinstance(nested.objective, SpectralContrastive) and nested.objective.scale == 3.0


def test_unknown_name_lists_the_names() -> None:
    with pytest.raises(EigenmapError, match=r"objective 'pca'.*neuralef, .*nested"):
        build("pca")


def test_unknown_option_lists_the_options() -> None:
    with pytest.raises(EigenmapError, match=r"simclr.*tau.*temperature"):
        build("simclr", tau=0.5)


def test_bad_value_is_an_error_of_the_user() -> None:
    with pytest.raises(EigenmapError, match=r"alpha.*0.*-1"):
        build("neuralef", alpha=-1)


@pytest.mark.parametrize(
    ("name", "option"),
    [
        ("neuralef", "ordered"),
        ("neuralef", "ratio"),
        ("neuralef-gram", "unbiased"),
        ("neuralef-gram", "centre"),
        ("nested", "unbiased"),
        ("nested", "centre"),
        ("ritz-trace", "centre"),
        ("ritz-logdet", "centre"),
        ("moco", "symmetric"),
    ],
)
@pytest.mark.parametrize("value", ["no", 0, None])
def test_switches_take_only_booleans(name: str, option: str, value: object) -> None:
    """The text "no" from a command line would count as true."""
    with pytest.raises(EigenmapError, match=f"^{option} .*{value!r}$"):
        build(name, **{option: value})
