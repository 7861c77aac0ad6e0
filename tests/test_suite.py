"""Rules for the tests themselves: every module has its test file, and every test asserts something."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef

COVERED_BY = {
    "__init__.py": "compatibility/test_recorded.py",
    "__main__.py": "test_first_contact.py",
    "cli/__init__.py": "cli/test_streams.py",
    "cli/demo.py": "test_demo.py",
    "cli/encoding.py": "cli/test_embed.py",
    "cli/evaluate/probing.py": "cli/evaluate/test_classes.py",
    "cli/figures/reproduce_dry_run.py": "cli/figures/test_reproduce_tables.py",
    "cli/figures/reproduce_options.py": "cli/figures/test_reproduce_tables.py",
    "cli/figures/reproduce_request.py": "cli/figures/test_reproduce_tables.py",
    "cli/fit/options.py": "cli/fit/test_images.py",
    "cli/fit/towers.py": "fitting/test_towers.py",
    "cli/options.py": "cli/fit/test_images.py",
    "cli/search/indexing.py": "cli/search/test_index.py",
    "cli/search/query.py": "cli/search/test_index.py",
    "cli/vector_codes.py": "cli/fit/test_vectors.py",
    "core/digests.py": "test_saved.py",
    "core/errors.py": "core/test_arguments.py",
    "core/pairing.py": "objectives/test_objective.py",
    "core/renames.py": "core/test_folders.py",
    "data/graphs/files.py": "data/graphs/test_graph.py",
    "data/graphs/scipy_files.py": "data/graphs/test_graph.py",
    "data/vectors/arrow.py": "data/vectors/test_vectors.py",
    "data/vectors/input.py": "fitting/test_vectors.py",
    "data/vectors/pairs.py": "relations/test_pairs.py",
    "data/vectors/trajectories.py": "relations/test_lagged.py",
    "data/images/released/layout.py": "data/images/released/test_coco.py",
    "demo/methods.py": "test_demo.py",
    "demo/page.py": "test_demo.py",
    "demo/study.py": "test_demo.py",
    "detection/dataset.py": "detection/test_generated.py",
    "detection/proposals.py": "detection/test_mask_rcnn.py",
    "detection/settings.py": "detection/test_mask_rcnn.py",
    "embedding/checksums.py": "embedding/test_shards.py",
    "embedding/node_store.py": "embedding/test_nodes.py",
    "estimators/model_estimator.py": "estimators/test_pair.py",
    "evaluation/node_codes.py": "evaluation/test_nodes.py",
    "export/maps.py": "formats/test_linear_map.py",
    "export/sentence_transformers.py": "formats/test_sentence_transformers.py",
    "figures/advice_page.py": "cli/figures/test_figures.py",
    "fitting/align.py": "fitting/test_evidence.py",
    "fitting/graph_checks.py": "fitting/test_graph.py",
    "fitting/heads.py": "fitting/test_vectors.py",
    "fitting/options.py": "fitting/test_images.py",
    "fitting/pipeline.py": "fitting/test_images.py",
    "fitting/problem.py": "fitting/test_settings.py",
    "fitting/run_folder.py": "fitting/test_images.py",
    "networks/towers.py": "fitting/test_towers.py",
    "linear/choice.py": "linear/test_align_pairs.py",
    "linear/collect.py": "linear/test_align_pairs.py",
    "model/eigenmap.py": "test_model.py",
    "model/exported.py": "formats/test_sentence_transformers.py",
    "model/files.py": "test_model.py",
    "model/graph_codes.py": "fitting/test_neighbours.py",
    "model/inputs.py": "test_model.py",
    "model/stored.py": "test_model.py",
    "networks/__init__.py": "networks/test_build_encoder.py",
    "objectives/__init__.py": "objectives/test_build.py",
    "objectives/learning.py": "objectives/test_simsiam.py",
    "recipes/imagenet.py": "recipes/test_recipes.py",
    "recipes/laptop.py": "recipes/test_recipes.py",
    "recipes/vectors.py": "fitting/test_vectors.py",
    "recipes/vision.py": "recipes/test_recipes.py",
    "relations/neighbour_codes.py": "fitting/test_neighbours.py",
    "relations/seeds.py": "relations/test_images.py",
    "reproduce/items.py": "reproduce/test_methods.py",
    "reproduce/retrieval.py": "reproduce/test_table_1.py",
    "search/adding.py": "cli/search/test_index.py",
    "search/backend.py": "search/test_flat.py",
    "search/backend_choice.py": "search/test_approximate.py",
    "search/cancellation.py": "search/test_scan.py",
    "search/checksums.py": "search/test_verifying.py",
    "search/notes.py": "search/test_verifying.py",
    "search/open_folder.py": "search/test_directory.py",
    "search/parts.py": "search/test_verifying.py",
    "search/postgres/copying.py": "search/postgres/test_load.py",
    "search/postgres/models.py": "cli/search/test_database.py",
    "search/postgres/session.py": "search/postgres/test_losses.py",
    "search/postgres/statements.py": "search/postgres/test_names.py",
    "search/postgres/transactions.py": "search/postgres/test_losses.py",
    "search/prefix_files.py": "search/test_verifying.py",
    "search/shared_cache.py": "search/test_threads.py",
    "search/snapshot.py": "search/test_flat.py",
    "service/contained_files.py": "service/test_thumbnails.py",
    "service/originals.py": "service/test_thumbnails.py",
    "service/overview_routes.py": "service/test_overview.py",
    "service/runtime.py": "service/test_app.py",
    "service/schemas.py": "service/test_schema.py",
    "service/search_routes.py": "service/test_app.py",
    "service/summary.py": "service/test_app.py",
    "spectrum/alignment.py": "test_spectrum.py",
    "spectrum/choice.py": "test_spectrum.py",
    "spectrum/moments.py": "test_spectrum.py",
    "spectrum/quality.py": "test_spectrum.py",
    "spectrum/ritz.py": "test_spectrum.py",
}
"""The test file of each module that has none of its own name."""


def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


# Every module has its test file


def modules(source: Path) -> list[str]:
    """List the modules that define something; many a package only collects names."""
    return [
        path.relative_to(source).as_posix()
        for path in sorted(source.rglob("*.py"))
        if path.name != "__init__.py" or any(isinstance(node, FUNCTIONS | ast.ClassDef) for node in parsed(path).body)
    ]


def own_tests(module: str) -> list[str]:
    """Name the test files that would be a module's own: room/test_name.py, and for a package also test_room.py."""
    path = Path(module)
    if path.name != "__init__.py":
        return [(path.parent / f"test_{path.name}").as_posix()]
    return [(folder / f"test_{path.parent.name}.py").as_posix() for folder in (path.parent, path.parent.parent)]


def wrong_entries(source: Path, tests: Path, covered_by: Mapping[str, str]) -> list[str]:
    """List the modules without tests, and the entries that are not needed or name a file that is not there."""
    found = []
    names = modules(source)
    for module in names:
        has_own = any((tests / name).is_file() for name in own_tests(module))
        if not has_own and module not in covered_by:
            found.append(f"{module} has no test file: write tests/{own_tests(module)[0]}, or name one in COVERED_BY")
        if has_own and module in covered_by:
            found.append(f"{module} has a test file of its own name; remove its entry")
    found += [f"{module} is not there; remove its entry" for module in covered_by if module not in names]
    found += [
        f"{name}, for {module}, is not there" for module, name in covered_by.items() if not (tests / name).is_file()
    ]
    return found


def test_every_module_has_its_tests() -> None:
    assert wrong_entries(ROOT / "src" / "eigenmap", ROOT / "tests", COVERED_BY) == []


@pytest.mark.parametrize(
    ("covered_by", "words"),
    [
        ({}, ["room/other.py has no test file"]),
        ({"room/other.py": "room/test_one.py"}, []),
        ({"room/other.py": "room/test_two.py"}, ["room/test_two.py"]),
        ({"room/other.py": "room/test_one.py", "room/one.py": "room/test_one.py"}, ["room/one.py has a test file"]),
        ({"room/other.py": "room/test_one.py", "gone.py": "room/test_one.py"}, ["gone.py"]),
    ],
)
def test_a_module_without_tests_is_found(tmp_path: Path, covered_by: dict[str, str], words: list[str]) -> None:
    for name in ("src/room/one.py", "src/room/other.py", "tests/room/test_one.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("def f(): ...")
    (tmp_path / "src" / "room" / "__init__.py").write_text("from .one import f")
    found = wrong_entries(tmp_path / "src", tmp_path / "tests", covered_by)
    assert len(found) == len(words) and all(word in line for word, line in zip(words, found, strict=True))


# Every test asserts something


class Function:
    """A function of the tests: what it calls, and whether it asserts something itself."""

    def __init__(self, path: Path, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self.path, self.name, self.calls, self.asserts = path, node.name, set[str](), False
        for part in ast.walk(node):
            if isinstance(part, ast.Call) and isinstance(part.func, ast.Name | ast.Attribute):
                self.calls.add(part.func.id if isinstance(part.func, ast.Name) else part.func.attr)
            self.asserts |= isinstance(part, ast.Assert)
        # Those of pytest, numpy and torch.
        self.asserts |= any(name in ("raises", "warns", "fail") or name.startswith("assert_") for name in self.calls)


def functions(tests: Path) -> Iterator[Function]:
    for path in sorted(tests.rglob("*.py")):
        body = parsed(path).body
        methods = (part for group in body if isinstance(group, ast.ClassDef) for part in group.body)
        for node in (*body, *methods):
            if isinstance(node, FUNCTIONS):
                yield Function(path.relative_to(tests), node)


def empty_tests(tests: Path) -> list[str]:
    """List the tests that neither assert anything nor call a function of the tests that does."""
    found = list(functions(tests))
    helpers = {one.name for one in found if one.asserts}
    tests_alone = [one for one in found if one.name.startswith("test_") and not one.asserts]
    return [f"{one.path}: {one.name}" for one in tests_alone if helpers.isdisjoint(one.calls)]


def test_every_test_asserts_something() -> None:
    assert empty_tests(ROOT / "tests") == []


def test_a_test_that_asserts_nothing_is_found(tmp_path: Path) -> None:
    (tmp_path / "test_these.py").write_text(
        "def helper(): assert_close(1, 1)\n"
        "def test_one(): assert f()\n"
        "def test_two(): helper()\n"
        "def test_three():\n    with pytest.raises(ValueError): f()\n"
        "def test_four(): f()\n"
    )
    assert empty_tests(tmp_path) == ["test_these.py: test_four"]
