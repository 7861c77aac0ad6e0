from __future__ import annotations

import pytest
import torch

from eigenmap.core.errors import EigenmapError
from eigenmap.objectives import Matryoshka, NeuralEF, SpectralContrastive

from .reference import KERNELS, assert_matches, example


@pytest.mark.parametrize(
    ("k", "lengths"), [(1, [1]), (4, [4]), (5, [4, 5]), (16, [4, 8, 16]), (100, [4, 8, 16, 32, 64, 100])]
)
def test_default_lengths_double_up_to_all(k: int, lengths: list[int]) -> None:
    assert Matryoshka(SpectralContrastive()).prefixes(k) == lengths


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("inner", [SpectralContrastive(), NeuralEF(alpha="paper")], ids=["scl", "neuralef"])
def test_is_the_weighted_sum_over_prefixes(kernel: str, inner: torch.nn.Module) -> None:
    def by_hand(psi: torch.Tensor, psi_plus: torch.Tensor, K: torch.Tensor | None) -> torch.Tensor:
        two, five = inner(psi[:, :2], psi_plus[:, :2], K), inner(psi, psi_plus, K)
        return 0.5 * two + 3.0 * five

    assert_matches(Matryoshka(inner, lengths=[2], weights=[0.5, 3.0]), by_hand, kernel, k=5)


def test_weights_are_one_by_default() -> None:
    psi, psi_plus, _ = example("pairs", k=5)
    inner = SpectralContrastive()
    expected = inner(psi[:, :4], psi_plus[:, :4]) + inner(psi, psi_plus)
    torch.testing.assert_close(Matryoshka(inner)(psi, psi_plus), expected)


def test_bad_lengths_and_weights_are_named() -> None:
    psi, psi_plus, _ = example("pairs", k=5)
    inner = SpectralContrastive()
    for lengths in ([0], [2.5], [True], ["4"]):
        with pytest.raises(EigenmapError, match="lengths"):
            Matryoshka(inner, lengths=lengths)  # type: ignore[arg-type]
    for options in ({"lengths": 4}, {"lengths": "48"}, {"weights": 1.0}):
        with pytest.raises(EigenmapError, match=r"(lengths|weights).*list"):
            Matryoshka(inner, **options)  # type: ignore[arg-type]
    with pytest.raises(EigenmapError, match="5 features"):
        Matryoshka(inner, lengths=[8])(psi, psi_plus)
    with pytest.raises(EigenmapError, match=r"lengths \[2, 5\].*1"):
        Matryoshka(inner, lengths=[2], weights=[1.0])(psi, psi_plus)
    with pytest.raises(EigenmapError, match="every weight"):
        Matryoshka(inner, lengths=[2], weights=[1.0, -1.0])
