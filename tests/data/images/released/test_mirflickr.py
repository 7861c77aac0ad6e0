from __future__ import annotations

from pathlib import Path

import pytest

from eigenmap.core.errors import EigenmapError
from eigenmap.data.images.released import read_mirflickr
from tests.data.images.released.miniatures import MIRFLICKR, write_mirflickr


def test_every_labelled_image_is_a_query_or_in_the_gallery(tmp_path: Path) -> None:
    write_mirflickr(tmp_path)
    found = read_mirflickr(tmp_path, queries=2)
    assert len(found.queries) == 2 and found.gallery.labels.names == list(MIRFLICKR)
    labels = {
        file.name: row
        for part in (found.gallery, found.queries)
        for file, row in zip(part.files, part.labels.rows(), strict=True)
    }
    numbers = sorted({number for each in MIRFLICKR.values() for number in each})
    assert labels == {f"im{i}.jpg": [name for name, of in MIRFLICKR.items() if i in of] for i in numbers}
    assert [str(file) for file in read_mirflickr(tmp_path, 2).queries.files] == [str(f) for f in found.queries.files]


def test_incomplete_sets(tmp_path: Path) -> None:
    with pytest.raises(EigenmapError, match=r"annotations_v080 .*no annotations.*v080/\*.txt"):
        read_mirflickr(tmp_path)
    write_mirflickr(tmp_path)
    with pytest.raises(EigenmapError, match=r"6 labelled images, too few for 2,000"):
        read_mirflickr(tmp_path)
    (tmp_path / "mirflickr" / "im6.jpg").unlink()
    with pytest.raises(EigenmapError, match=r"1 of 8 images of MIRFLICKR-25000 .*im6.jpg"):
        read_mirflickr(tmp_path, 2)
    for text in ("", "0\n", "two\n", "9999999999999999999999\n"):
        (tmp_path / "mirflickr25k_annotations_v080" / "sky.txt").write_text(text)
        with pytest.raises(EigenmapError, match=r"sky.txt is damaged"):
            read_mirflickr(tmp_path, 2)
