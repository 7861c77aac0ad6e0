"""Request counters in Prometheus text format."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable
from itertools import accumulate

BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)


class ServiceMetrics:
    """Counters and one histogram. Updated on the event loop only, so no lock is needed.

    >>> metrics = ServiceMetrics()
    >>> metrics.count("/api/search", 200, 0.02)
    >>> 'eigenmap_requests_total{route="/api/search",status="200"} 1' in metrics.text([])
    True
    """

    def __init__(self) -> None:
        self._requests: Counter[tuple[str, int]] = Counter()
        self._seconds: dict[str, list[int]] = {}
        self._sums: Counter[str] = Counter()

    def count(self, route: str, status: int, seconds: float) -> None:
        """Record one answered request."""
        self._requests[route, status] += 1
        self._seconds.setdefault(route, [0] * (len(BUCKETS) + 1))[bisect_left(BUCKETS, seconds)] += 1
        self._sums[route] += seconds  # type: ignore[assignment]  # a Counter adds floats as well

    def text(self, gauges: Iterable[tuple[str, str, str, float]]) -> str:
        """Return all metrics as text, including the given gauges (name, kind, help, value)."""
        lines = ["# HELP eigenmap_requests_total Requests answered.", "# TYPE eigenmap_requests_total counter"]
        for (route, status), count in sorted(self._requests.items()):
            lines.append(f'eigenmap_requests_total{{route="{route}",status="{status}"}} {count}')
        lines += ["# HELP eigenmap_seconds Time to answer.", "# TYPE eigenmap_seconds histogram"]
        for route, counts in sorted(self._seconds.items()):
            *below, total = accumulate(counts)
            for edge, count in zip(BUCKETS, below, strict=True):
                lines.append(f'eigenmap_seconds_bucket{{route="{route}",le="{edge:g}"}} {count}')
            lines.append(f'eigenmap_seconds_bucket{{route="{route}",le="+Inf"}} {total}')
            lines.append(f'eigenmap_seconds_sum{{route="{route}"}} {self._sums[route]:.6f}')
            lines.append(f'eigenmap_seconds_count{{route="{route}"}} {total}')
        for name, kind, meaning, value in gauges:
            # With the six digits of a plain "g", a counter above a million would stand still between searches.
            lines += [f"# HELP {name} {meaning}", f"# TYPE {name} {kind}", f"{name} {value:.15g}"]
        return "\n".join(lines) + "\n"
