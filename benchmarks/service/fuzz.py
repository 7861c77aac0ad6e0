"""Fuzzing of a running service with generated requests and mutated pictures.

Requests are generated from the service's own OpenAPI schema (schemathesis: valid and invalid values for every parameter
and body). Every answer must be described by the schema, including any 5xx.

    python -m benchmarks.service.fuzz --requests 10000 --pictures 2000      # a server of the embedded catalogue
    python -m benchmarks.service.fuzz http://127.0.0.1:8000                 # one that runs
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import httpx
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from requests import Session

from benchmarks.common import harness
from benchmarks.service import RESULTS

CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
)
"""Checks of every answer. That valid requests are accepted is not checked, since a schema does not know the ids."""


def fuzz_schema(url: str, requests: int, number: int = 0) -> Counter[int]:
    """Send generated requests, spread over all operations; count the answers by status."""
    schema = schemathesis.openapi.from_url(f"{url}/openapi.json")
    operations = [found.ok() for found in schema.get_all_operations()]
    statuses: Counter[int] = Counter()
    with Session() as session:
        while statuses.total() < requests:  # an operation without parameters has one request only
            for operation in operations:
                _fuzz_operation(operation, session, -(-requests // len(operations)), number, statuses)
            number += 1
    return statuses


def _fuzz_operation(operation: Any, session: Session, requests: int, number: int, statuses: Counter[int]) -> None:
    checks = schemathesis.checks.CHECKS.get_by_names(list(CHECKS))

    @seed(number)
    @settings(
        max_examples=requests,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy())
    def attack(case: schemathesis.Case) -> None:
        response = case.call(session=session)
        statuses[response.status_code] += 1
        case.validate_response(response, checks=checks)

    attack()


def fuzz_pictures(url: str, bodies: list[bytes]) -> Counter[int]:
    """Upload each picture; count the answers by status. Raise if the service has died."""
    statuses: Counter[int] = Counter()
    with httpx.Client(base_url=url, timeout=60) as client:
        for body in bodies:
            statuses[client.post("/api/search/image", params={"top": 1}, content=body).status_code] += 1
        assert client.get("/api/health").status_code == 200
    return statuses


@contextmanager
def catalogue_service() -> Iterator[str]:
    """Start a server of the embedded catalogue, with a barely trained model; yield its address."""
    from benchmarks.service.load import served
    from eigenmap import fit_images

    with tempfile.TemporaryDirectory() as name:
        model, index = Path(name) / "model", Path(name) / "catalogue.index"
        fit_images("catalogue", 8, steps=20, out=model, device="cpu", progress=False)
        words = ["index", str(model), "catalogue", "--out", str(index), "--quiet"]
        subprocess.run([sys.executable, "-c", "from eigenmap.cli import main; main()", *words], check=True)
        with served(index) as (port, _):
            yield f"http://127.0.0.1:{port}"


def main() -> None:
    from tests.service.pictures import mutants

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "url", nargs="?", help="address of a running server (default: start one with the embedded catalogue)"
    )
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--pictures", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0, help="runs with other seeds add up in the result")
    parser.add_argument("--json", type=Path, default=RESULTS / "serve-fuzz.json", help="result file")
    options = parser.parse_args()
    began = time.perf_counter()
    with nullcontext(options.url) if options.url else catalogue_service() as url:
        requests = fuzz_schema(url, options.requests, options.seed)
        pictures = fuzz_pictures(url, list(mutants(options.pictures, options.seed)))
    run = {
        "requests": dict(sorted(requests.items())),
        "pictures": dict(sorted(pictures.items())),
        "seconds": time.perf_counter() - began,
        **harness.environment(),
    }
    runs = json.loads(options.json.read_text(encoding="utf-8"))["runs"] if options.json.exists() else {}
    harness.write(options.json, {"runs": runs | {str(options.seed): run}})
    print(run)


if __name__ == "__main__":
    main()
