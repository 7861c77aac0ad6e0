"""Requests generated from the service's own schema: every answer is one that the schema announces."""

from __future__ import annotations

import httpx

from benchmarks.service import fuzz
from tests.service.pictures import mutants


def test_generated_requests_get_announced_answers(client: httpx.Client) -> None:
    statuses = fuzz.fuzz_schema(str(client.base_url).rstrip("/"), 200)
    assert sum(statuses.values()) >= 200
    assert set(statuses) <= {200, 400, 404, 405, 409, 413, 415, 422}
    assert statuses[200] > 40 and statuses[422] > 20


def test_mutated_pictures_do_not_stop_the_service(client: httpx.Client) -> None:
    statuses = fuzz.fuzz_pictures(str(client.base_url).rstrip("/"), list(mutants(60, seed=1)))
    assert sum(statuses.values()) == 60 and set(statuses) <= {200, 413, 415, 422}


def test_the_schema_names_every_route(client: httpx.Client) -> None:
    paths = client.get("/openapi.json").json()["paths"]
    assert set(paths) == {
        *("/api/search", "/api/search/image", "/api/images/{key}", "/api/items/{key}", "/api/items", "/api/about"),
        *("/api/lengths", "/api/quality", "/api/features", "/api/features/{number}/items", "/api/map"),
        *("/api/health", "/metrics"),
    }
