"""Throw generated requests and mutated pictures at a running service, and count what it answers.

Requests come from the service's own OpenAPI schema (schemathesis: valid and invalid values for every parameter and
body); every answer must be one that the schema announces, and none may be a 5xx but the announced ones.

    eigenmap serve photos.index --port 8000 &
    python benchmarks/serve_fuzz.py http://127.0.0.1:8000 --requests 10000 --pictures 2000
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from pathlib import Path

import httpx
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings

import harness

CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
)
"""Not among them: that whatever fits the schema is accepted. Which ids there are, no schema can say."""
RESULT = harness.RESULTS / "serve-fuzz.json"


def fuzz_schema(url: str, requests: int, number: int = 0) -> Counter[int]:
    """Generated requests to every operation, the same number each; how often each status was the answer."""
    schema = schemathesis.openapi.from_url(f"{url}/openapi.json")
    operations = [found.ok() for found in schema.get_all_operations()]
    statuses: Counter[int] = Counter()
    session = requests_session()
    checks = schemathesis.checks.CHECKS.get_by_names(list(CHECKS))
    for operation in operations:

        @seed(number)
        @settings(
            max_examples=-(-requests // len(operations)),
            deadline=None,
            database=None,
            derandomize=False,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy())
        def attack(case: schemathesis.Case) -> None:
            response = case.call(session=session)
            statuses[response.status_code] += 1
            case.validate_response(response, checks=checks)

        attack()
    return statuses


def requests_session():  # type: ignore[no-untyped-def]
    """One connection for all requests."""
    import requests

    return requests.Session()


def fuzz_pictures(url: str, bodies: list[bytes]) -> Counter[int]:
    """Upload each; how often each status was the answer. A service that died raises."""
    statuses: Counter[int] = Counter()
    with httpx.Client(base_url=url, timeout=60) as client:
        for body in bodies:
            statuses[client.post("/api/search/image", params={"top": 1}, content=body).status_code] += 1
        assert client.get("/api/health").status_code == 200
    return statuses


def main() -> None:
    import sys

    sys.path.insert(0, str(Path(__file__).parents[1]))
    from tests.service.pictures import mutants

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("url")
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--pictures", type=int, default=2000)
    given_ = parser.parse_args()
    began = time.perf_counter()
    requests = fuzz_schema(given_.url, given_.requests)
    pictures = fuzz_pictures(given_.url, list(mutants(given_.pictures)))
    result = {
        "protocol": {"requests": sum(requests.values()), "pictures": given_.pictures, "seed": 0},
        "requests_by_status": dict(sorted(requests.items())),
        "pictures_by_status": dict(sorted(pictures.items())),
        "seconds": time.perf_counter() - began,
        **harness.environment(),
    }
    harness.write(RESULT, result)
    print(result)


if __name__ == "__main__":
    main()
