from __future__ import annotations

from eigenmap.service.metrics import BUCKETS, ServiceMetrics


def test_requests_are_counted_and_timed() -> None:
    metrics = ServiceMetrics()
    for status, seconds in ((200, 0.001), (200, 0.03), (429, 7.0)):
        metrics.count("/api/search", status, seconds)
    lines = metrics.text([("eigenmap_items", "gauge", "Items.", 12.0)]).splitlines()
    assert 'eigenmap_requests_total{route="/api/search",status="200"} 2' in lines
    assert 'eigenmap_requests_total{route="/api/search",status="429"} 1' in lines
    buckets = [line for line in lines if line.startswith("eigenmap_seconds_bucket")]
    assert [int(line.split()[-1]) for line in buckets] == [1, 1, 1, 2, 2, 2, 2, 2, 2, 3]
    assert len(buckets) == len(BUCKETS) + 1
    assert 'eigenmap_seconds_sum{route="/api/search"} 7.031000' in lines
    assert 'eigenmap_seconds_count{route="/api/search"} 3' in lines
    assert "eigenmap_items 12" in lines and "# TYPE eigenmap_items gauge" in lines


def test_a_large_counter_still_counts() -> None:
    lines = ServiceMetrics().text([("a", "counter", "A.", 12_345_678), ("b", "counter", "B.", 1234567.25)]).splitlines()
    assert "a 12345678" in lines and "b 1234567.25" in lines
