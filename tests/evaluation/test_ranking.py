import numpy as np
import pytest
import torch

from eigenmap.core.errors import EigenmapError
from eigenmap.evaluation.ranking import nearest
from tests.evaluation import reference


def codes(n, k, seed=0):
    return np.random.default_rng(seed).standard_normal((n, k)).astype(np.float32)


@pytest.mark.parametrize("dim", [2, 5, 12, None])
def test_order_and_cosines_are_those_of_the_definition(dim):
    queries, gallery = codes(7, 12, 1), codes(40, 12, 2) * np.linspace(0.01, 100, 40, dtype=np.float32)[:, None]
    indices, scores = nearest(queries, gallery, 9, dim)
    for j, query in enumerate(queries):
        order, cosines = reference.ranking(query, gallery, dim or 12)
        assert indices[j].tolist() == order[:9]
        np.testing.assert_allclose(scores[j], [cosines[i] for i in order[:9]], atol=2e-7)
    assert (indices.dtype, scores.dtype) == (torch.int64, torch.float32)


@pytest.mark.parametrize("kind", [np.asarray, torch.from_numpy])
def test_features_may_come_in_another_order(kind):
    queries, gallery, order = codes(4, 12, 1), codes(40, 12, 2), torch.randperm(12)
    found = nearest(kind(queries), kind(gallery), 9, 5, order=order, gallery_block=7)
    expected = nearest(queries[:, order.numpy()], gallery[:, order.numpy()], 9, 5)
    assert torch.equal(found.indices, expected.indices)
    torch.testing.assert_close(found.scores, expected.scores)


def test_equal_cosines_rank_by_gallery_index_also_across_blocks_and_scales():
    gallery = np.tile(codes(5, 4), (20, 1)) * (2.0 ** (np.arange(100) % 7))[:, None]
    for gallery_block in (3, 17, 100):
        indices, _ = nearest(gallery[:5], gallery, 20, gallery_block=gallery_block)
        assert indices.tolist() == [list(range(j, 100, 5)) for j in range(5)]


@pytest.mark.parametrize("size", [3e38, 1e-38, 2e-45])
def test_norms_outside_the_range_of_float32_are_no_obstacle(size):
    gallery = np.array([[1, 1], [1, -1], [1, 0], [-1, -1]], np.float32) * np.float32(size)
    indices, scores = nearest(gallery[:2], gallery, 4)
    assert indices.tolist() == [[0, 2, 1, 3], [1, 2, 0, 3]]
    np.testing.assert_allclose(scores, [[1, 0.5**0.5, 0, -1], [1, 0.5**0.5, 0, 0]], atol=2e-7)


def test_one_feature_is_only_a_sign():
    gallery = np.array([[0.3], [-7.0], [1e-30], [0.0], [-0.0], [1e30]])
    indices, scores = nearest(np.array([[0.1], [-3.0], [0.0]]), gallery, 6)
    assert indices.tolist() == [[0, 2, 5, 3, 4, 1], [1, 3, 4, 0, 2, 5], [0, 1, 2, 3, 4, 5]]
    assert scores.tolist() == [[1, 1, 1, 0, 0, -1], [1, 0, 0, -1, -1, -1], [0] * 6]


def test_an_item_is_left_out_of_its_own_ranking_wherever_the_blocks_end():
    gallery = codes(23, 6)
    for block, gallery_block in ((1, 1), (4, 7), (23, 23), (100, 100)):
        indices, _ = nearest(gallery, gallery, 100, drop_self=True, block=block, gallery_block=gallery_block)
        for j in range(23):
            assert indices[j].tolist() == reference.ranking(gallery[j], gallery, 6, leave_out=j)[0]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_other_float_types_are_ranked_in_float32(dtype):
    queries, gallery = torch.from_numpy(codes(3, 8, 1)).to(dtype), torch.from_numpy(codes(30, 8, 2)).to(dtype)
    expected = nearest(queries.float(), gallery.float(), 5)
    found = nearest(queries, gallery, 5)
    assert torch.equal(found.indices, expected.indices) and torch.equal(found.scores, expected.scores)


def test_a_read_only_memory_map_is_ranked_like_the_array(tmp_path):
    gallery = codes(50, 8)
    np.save(tmp_path / "gallery.npy", gallery)
    mapped = np.load(tmp_path / "gallery.npy", mmap_mode="r")
    found = nearest(mapped[:4], mapped, 6, dim=5, gallery_block=16)
    assert torch.equal(found.indices, nearest(gallery[:4], gallery, 6, dim=5).indices)


@pytest.mark.parametrize("dtype", [">f4", ">f8", "longdouble"])
def test_codes_of_any_number_type_are_ranked(dtype):
    """Of old torch refused arrays of another byte order, such as files written on another machine."""
    gallery = codes(50, 8)
    expected = nearest(gallery[:4], gallery, 6).indices
    assert torch.equal(nearest(gallery[:4].astype(dtype), gallery.astype(dtype), 6).indices, expected)


def test_autocast_and_the_process_wide_matmul_precision_change_nothing():
    queries, gallery = torch.from_numpy(codes(4, 64, 1)), torch.from_numpy(codes(200, 64, 2))
    expected = nearest(queries, gallery, 20)
    before = torch.get_float32_matmul_precision()
    try:
        torch.set_float32_matmul_precision("medium")
        with torch.autocast("cpu", dtype=torch.bfloat16):
            found = nearest(queries, gallery, 20)
        assert torch.get_float32_matmul_precision() == "medium"
    finally:
        torch.set_float32_matmul_precision(before)
    assert torch.equal(found.indices, expected.indices) and torch.equal(found.scores, expected.scores)


def test_tf32_changes_nothing_on_a_cpu_and_is_put_back():
    queries, gallery = torch.from_numpy(codes(4, 64, 1)), torch.from_numpy(codes(200, 64, 2))
    before = torch.get_float32_matmul_precision()
    assert torch.equal(nearest(queries, gallery, 9, tf32=True).indices, nearest(queries, gallery, 9).indices)
    assert torch.get_float32_matmul_precision() == before


def test_no_gradient_is_recorded():
    queries = torch.randn(3, 4, requires_grad=True)
    assert not nearest(queries, queries, 2).scores.requires_grad


BAD = {
    "matrix": ((np.zeros(4), codes(3, 4)), {}),
    "no codes": ((codes(2, 4), np.zeros((0, 4))), {}),
    "same number": ((codes(2, 4), codes(3, 5)), {}),
    "dim .*1 to 4.*5": ((codes(2, 4), codes(3, 4)), {"dim": 5}),
    "^block .*0": ((codes(2, 4), codes(3, 4)), {"block": 0}),
    "gallery_block .*-1": ((codes(2, 4), codes(3, 4)), {"gallery_block": -1}),
    "gallery itself": ((codes(2, 4), codes(3, 4)), {"drop_self": True}),
    "one item": ((codes(1, 4), codes(1, 4)), {"drop_self": True}),
    "NaN or infinite": ((codes(2, 4), np.full((3, 4), np.nan)), {}),
    "finite number": ((np.full((2, 4), np.inf), codes(3, 4)), {}),
}


@pytest.mark.parametrize("message", BAD)
def test_input_that_cannot_be_ranked_says_why(message):
    (queries, gallery), options = BAD[message]
    with pytest.raises(EigenmapError, match=message):
        nearest(queries, gallery, 2, **options)
