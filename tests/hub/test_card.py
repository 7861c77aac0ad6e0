"""Model cards: every figure on them is one of the model."""

import json
from pathlib import Path

import pytest

from eigenmap.hub.card import model_card
from eigenmap.model import Eigenmap

STORED = Path(__file__).parents[1] / "compatibility" / "v0_1"


@pytest.mark.parametrize("kind", ["images", "graph"])
def test_a_card_says_what_the_model_says(kind):
    (folder,) = [path.parent for path in (STORED / kind).rglob("model.json")][:1]
    about, model = json.loads((folder / "model.json").read_text()), Eigenmap.load(folder)
    card = model.card("someone/birds")
    assert card.startswith("---\nlibrary_name: eigenmap\n") and "\n# birds\n" in card
    assert 'from_pretrained("someone/birds")' in card
    assert about["weights_sha256"][:12] in card
    assert f"| objective | {about['training']['recipe']['objective']} |" in card
    assert f"| {model.n_components} | {model.eigenvalues_[-1]:.3f} |" in card
    for length, share in about["alignment"]["recall"].items():
        if int(length) == model.n_components or int(length) in (8, 16, 32):
            assert f"| {length} | {model.eigenvalues_[int(length) - 1]:.3f} | {100 * share:.0f} % |" in card


def test_yes_and_no_are_no_numbers():
    card = model_card(
        {"input": {"length": 1300, "unit": True, "other": False}, "alignment": {}, "weights_sha256": "0" * 64},
        [0.9, 0.5],
        "vectors",
    )
    assert "| length | 1,300 |" in card and "| unit | yes |" in card and "| other | no |" in card
