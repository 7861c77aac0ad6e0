from __future__ import annotations

import numpy as np

from eigenmap.search.backend import ItemBatch
from eigenmap.service.opening import opening_number
from eigenmap.service.overview import Overview


def overview(labels: list[str | None], codes: np.ndarray) -> Overview:
    metadata = [{} if label is None else {"label": label} for label in labels]
    return Overview(ItemBatch(list(range(len(labels))), codes.astype(np.float32), metadata))


def test_the_page_opens_on_a_query_whose_neighbours_share_its_label() -> None:
    """Labels of one direction agree, those of the other are mixed; a slow loop says which query is best."""
    rng = np.random.default_rng(0)
    mixed = rng.integers(0, 2, 60).astype(str)
    codes = np.concatenate([rng.normal((5, 0), 0.3, (60, 2)), rng.normal((0, 5), 0.3, (40, 2))])
    labels: list[str | None] = [*(f"m{value}" for value in mixed), *["clear"] * 40]
    order = rng.permutation(100)
    labels, codes = [labels[i] for i in order], codes[order]
    unit = codes / np.linalg.norm(codes, axis=1, keepdims=True)
    shares = []
    for query in range(64):
        near = [other for other in np.argsort(-(unit @ unit[query])) if other != query][:24]
        shares.append(sum(labels[other] == labels[query] for other in near))
    chosen = opening_number(overview(labels, codes), dim=2)
    assert labels[chosen] == "clear" and chosen == int(np.argmax(shares)) and shares[chosen] == 24


def test_without_labels_or_company_it_opens_on_the_first_item() -> None:
    codes = np.eye(3)
    assert opening_number(overview([None, None, None], codes), dim=3) == 0
    assert opening_number(overview(["cat"], codes[:1]), dim=3) == 0
    assert opening_number(overview([None, "cat", "cat"], codes * 0), dim=3) == 1
