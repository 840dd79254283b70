"""The operations against slow references, and the laws they obey."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nrs.points import ball_query, density, farthest_point_sampling, knn
from nrs.points.gather import canonical_order, gather_points
from nrs.points.neighbours import _smallest, squared_distances
from tests.points.slow_references import slow_ball, slow_density, slow_fps, slow_knn, slow_start

SIZES = st.tuples(st.integers(1, 3), st.integers(1, 24), st.integers(1, 4), st.integers(0, 10**6))


def clouds(sizes):
    batch, points, dimensions, seed = sizes
    return torch.randn(
        batch, points, dimensions, generator=torch.Generator().manual_seed(seed)
    ).double()


def shuffled(x, seed):
    order = torch.randperm(x.shape[1], generator=torch.Generator().manual_seed(seed))
    return x[:, order], order


@settings(max_examples=15)
@given(SIZES, st.integers(1, 24))
def test_fps_is_the_slow_reference(sizes, n):
    x = clouds(sizes)
    n = min(n, x.shape[1])
    found = farthest_point_sampling(x, n)
    for cloud, row in zip(x, found.tolist(), strict=True):
        assert row == slow_fps(cloud, n, slow_start(cloud))
    start = torch.zeros(len(x), dtype=torch.int64)
    assert farthest_point_sampling(x, n, start=start)[0].tolist() == slow_fps(x[0], n, 0)


@settings(max_examples=15)
@given(SIZES, st.integers(1, 24), st.integers(1, 50))
def test_knn_is_the_slow_reference_for_any_chunk(sizes, k, chunk):
    x = clouds(sizes)
    k = min(k, x.shape[1])
    queries = torch.cat([x[:, :2], x.mean(1, keepdim=True)], dim=1)
    found = knn(x, k, queries, chunk=chunk)
    for cloud, some, rows in zip(x, queries, found.tolist(), strict=True):
        for query, row in zip(some, rows, strict=True):
            wanted = slow_knn(cloud, k, query)
            gaps = (cloud - query).square().sum(-1)
            torch.testing.assert_close(gaps[row], gaps[wanted])
            assert len(set(row)) == k
    assert torch.equal(found, knn(x, k, queries))


@settings(max_examples=15)
@given(SIZES, st.integers(1, 24), st.floats(0.05, 3), st.integers(1, 50))
def test_a_ball_query_is_the_slow_reference_for_any_chunk(sizes, k, radius, chunk):
    x = clouds(sizes)
    k = min(k, x.shape[1])
    found = ball_query(x, k, radius, x, chunk=chunk)
    for cloud, rows in zip(x, found.tolist(), strict=True):
        for query, row in zip(cloud, rows, strict=True):
            assert row == slow_ball(cloud, k, radius, query)


@settings(max_examples=15)
@given(SIZES, st.floats(0.05, 2), st.integers(1, 50))
def test_density_is_the_slow_reference_for_any_chunk(sizes, bandwidth, chunk):
    x = clouds(sizes)
    found = density(x, bandwidth, chunk=chunk)
    wanted = torch.stack([slow_density(cloud, bandwidth) for cloud in x])
    torch.testing.assert_close(found.float(), wanted.float(), rtol=1e-4, atol=1e-6)


@settings(max_examples=20)
@given(SIZES, st.integers(0, 1000))
def test_the_operations_follow_the_points_in_any_order(sizes, seed):
    x = clouds(sizes)
    other, order = shuffled(x, seed)
    n = max(1, x.shape[1] // 2)
    for a, b in (
        (farthest_point_sampling(x, n), farthest_point_sampling(other, n)),
        (knn(x, n, x[:, :1]), knn(other, n, x[:, :1])),
        (ball_query(x, n, 0.8, x[:, :1]), ball_query(other, n, 0.8, x[:, :1])),
    ):
        # Points and not numbers are compared: random clouds have no ties.
        torch.testing.assert_close(gather_points(x, a), gather_points(other, b))
    torch.testing.assert_close(density(x, 0.5)[:, order], density(other, 0.5))
    assert torch.equal(canonical_order(x), canonical_order(other))


@settings(max_examples=20)
@given(SIZES, st.floats(-3, 3))
def test_the_operations_do_not_see_where_the_cloud_is(sizes, far):
    x = clouds(sizes)
    n = max(1, x.shape[1] // 2)
    assert torch.equal(farthest_point_sampling(x, n), farthest_point_sampling(x + far, n))
    assert torch.equal(knn(x, n), knn(x + far, n))
    torch.testing.assert_close(density(x, 0.5), density(x + far, 0.5))


@settings(max_examples=25)
@given(st.integers(4, 80), st.integers(1, 12), st.integers(0, 10**6))
def test_fps_covers_a_cloud_at_least_as_well_as_random_points(points, n, seed):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(1, points, 3, generator=generator)
    n = min(n, points)

    def cover(index):
        return squared_distances(gather_points(x, index), x).amin(-1).max().sqrt()

    others = [torch.randperm(points, generator=generator)[:n].unsqueeze(0) for _ in range(20)]
    # Greedy is at most twice the best cover (Gonzalez), and no worse than the usual random one.
    best, usual = min(map(cover, others)), sorted(map(cover, others))[10]
    mine = cover(farthest_point_sampling(x, n))
    assert mine <= 2 * best + 1e-6
    if n >= 4:
        assert mine <= usual + 1e-6


@settings(max_examples=40)
@given(st.integers(1, 300), st.integers(1, 30), st.integers(0, 10**6), st.booleans())
def test_the_smallest_of_a_row_are_those_of_topk(n, k, seed, ties):
    x = torch.randn(2, 3, n, generator=torch.Generator().manual_seed(seed))
    x = (2 * x).round() if ties else x
    k = min(k, n)
    values, places = _smallest(x, k)
    assert torch.equal(values, x.topk(k, dim=-1, largest=False).values)
    assert torch.equal(values, x.gather(-1, places))
    assert all(len(set(row)) == k for row in places.flatten(0, 1).tolist())


def test_far_off_clouds_keep_their_neighbours():
    x = torch.rand(1, 50, 3, generator=torch.Generator().manual_seed(0))
    far = x + 1000.0
    near = (far[:, :, None] - far[:, None]).double().square().sum(-1).topk(4, largest=False).indices
    a = gather_points(far, knn(far, 4)).sub(far.unsqueeze(2)).square().sum(-1)
    b = gather_points(far, near).sub(far.unsqueeze(2)).square().sum(-1)
    torch.testing.assert_close(a, b, rtol=0, atol=1e-4)


def test_lower_precision_loses_no_neighbours():
    x = torch.rand(2, 300, 3, generator=torch.Generator().manual_seed(0)) * 2 - 1
    expected = knn(x, 8), ball_query(x, 8, 0.3, x), density(x, 0.1), squared_distances(x, x)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = knn(x, 8), ball_query(x, 8, 0.3, x), density(x, 0.1), squared_distances(x, x)
    for a, b in zip(found, expected, strict=True):
        assert torch.equal(a, b)
    # Half numbers are those they are: the nearest of each is itself.
    half = x.bfloat16()
    own = gather_points(half, knn(half, 2))
    assert torch.equal(own[:, :, 0], half)
    assert torch.equal(knn(half, 2), knn(half.float(), 2))
    assert torch.equal(ball_query(half, 8, 0.3, half), ball_query(half.float(), 8, 0.3, half))
    torch.testing.assert_close(density(half, 0.1), density(half.float(), 0.1).bfloat16())


def test_clouds_without_data_have_shapes():
    x = torch.empty(2, 50, 3, device="meta")
    assert knn(x, 5).shape == ball_query(x, 5, 0.2, x).shape == (2, 50, 5)
    assert density(x, 0.2).shape == (2, 50)


def test_memory_of_knn_is_bounded_by_the_chunk(monkeypatch):
    from nrs.points import neighbours

    held = []
    plain = neighbours._without_query

    def watched(x, queries):
        found = plain(x, queries)
        held.append(found.numel())
        return found

    monkeypatch.setattr(neighbours, "_without_query", watched)
    x = torch.randn(3, 100, 3)
    knn(x, 5, chunk=1000)
    assert max(held) <= 1000
    assert sum(held) == 3 * 100 * 100
    held.clear()
    ball_query(x, 5, 0.5, x[:, :40], chunk=250)
    assert max(held) <= 250


def test_fewer_distinct_points_than_asked_for():
    x = torch.zeros(1, 6, 3)
    assert farthest_point_sampling(x, 4).shape == (1, 4)
    x[0, 3] = 1
    assert set(farthest_point_sampling(x, 2)[0].tolist()) == {0, 3}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: farthest_point_sampling(x, 0), "n must be from 1 to the number of points 5"),
        (lambda x: farthest_point_sampling(x, 6), "however: n=6"),
        (lambda x: farthest_point_sampling(x[0], 2), r"\(clouds, points, C\)"),
        (lambda x: farthest_point_sampling(x[:, :0], 1), "every cloud must have a point"),
        (lambda x: farthest_point_sampling(x, 2, start=torch.zeros(3).long()), "start must be"),
        (lambda x: knn(x, 6), "k must be from 1 to the number of points 5"),
        (lambda x: knn(x, 2, x[..., :2]), r"queries must have the shape \(clouds, points, 3\)"),
        (lambda x: knn(x, 2, x[:1]), "of the same clouds, however: 2 and 1"),
        (lambda x: knn(x, 2, chunk=0), "chunk must be at least 1"),
        (lambda x: ball_query(x, 2, 0.0, x), "radius must be more than 0"),
        (lambda x: density(x, 0.0), "bandwidth must be more than 0"),
    ],
)
def test_arguments_that_do_not_fit_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call(torch.randn(2, 5, 3))


def test_whole_numbers_are_refused():
    with pytest.raises(TypeError, match="floating point"):
        knn(torch.zeros(1, 4, 3, dtype=torch.int64), 2)
    with pytest.raises(TypeError, match=r"must be a torch\.Tensor"):
        knn([[1.0]], 1)
