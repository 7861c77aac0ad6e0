"""The plan of the study: what it holds, what is missing, and how runs are named."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from benchmarks.__main__ import main
from benchmarks.vision import RESULTS, plan, summary
from benchmarks.vision.jobs import METHODS, RECORD_EPOCHS, Job
from benchmarks.vision.sets import SETS
from eigenmap import recipes


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder in the place of the repository's results."""
    folder = tmp_path / "repository"
    monkeypatch.setattr(plan, "RESULTS", folder)
    folder.mkdir()
    return folder


def finish(folder: Path, job: Job, **result: float) -> None:
    folder.mkdir(exist_ok=True)
    (folder / f"{job.name}.json").write_text(json.dumps(result))


def screen(folder: Path, method: str, *knn: float) -> None:
    for rate, accuracy in zip(METHODS[method].rates, knn, strict=True):
        finish(folder, Job("cifar10", method, rate, plan.SCREENING_EPOCHS), knn_held_out=accuracy)


def test_names_are_stable() -> None:
    """Under another name a finished run would count as missing and be done again."""
    assert Job("cifar10", "scl", 0.3, 20).name == "retrieval-cifar10-scl-lr0.3-e20-k2048-b512-s0"
    job = Job("cifar10", "paper-sgd", 0.3, 10, 1, 8192, 256, part="robustness")
    assert job.name == "robustness-cifar10-paper-sgd-lr0.3-e10-k8192-b256-s1"
    stored = [json.loads(path.read_text()) for path in RESULTS.glob("retrieval-*-s[0-9].json")]
    assert stored
    for result in stored:
        job = Job(**result["job"])
        assert (RESULTS / f"{job.name}.json").is_file()
        assert job.recipe().objective == result["recipe"]["objective"]
        assert job.recipe().lr == pytest.approx(result["recipe"]["lr"])


def test_the_rows_of_the_paper_train_its_published_loss() -> None:
    published = recipes.get("imagenet-resnet50-100").objective_options
    rows = [name for name in METHODS if name.startswith("paper")]
    assert len(rows) == 4
    for name in rows:
        assert Job("cifar10", name, 1.2, 1).recipe().objective_options == published
    # With SGD, whose steps grow with the loss, smaller rates than any other method; with LARS more of them.
    assert METHODS["paper-sgd"].rates == (0.006, 0.015, 0.0375, 0.12, 0.3)
    assert METHODS["paper"].rates == METHODS["paper-wide"].rates == (0.3, 0.6, 1.2, 2.4, 4.8)


def test_the_whole_study_is_planned(results: Path) -> None:
    finished = plan.Finished()
    finished.assume_rates = True
    count = {stage: len(plan.missing(finished, stage)) for stage in plan.STAGES}
    assert count == {
        "screening": 17,
        "finals-cifar10": 9,
        "finals-coco": 9,
        "robustness": 12,
        "tiny": 3,
        "rates": 42,
        "others": 6,
        "robustness-k": 24,
        "few-steps": 2,
        "accuracy-search": 7,
        "accuracy": 1,
        "wide": 2,
        "crops": 9,
        "robustness-gram": 18,
        "batches": 20,
        "records": 11,
    }
    everything = plan.missing(finished)
    # One run of the search is one of the screening, six of the rates are runs of the robustness part, and so is the
    # default of the batches.
    assert len({job.name for job in everything}) == len(everything) == sum(count.values()) - 8
    for job in everything:
        assert job.recipe().views == (METHODS[job.method].views or SETS[job.data].views)
        assert plan.wall_seconds(job) > plan.wall_seconds(job, 1) > plan.training_seconds(job) > 0


def test_a_finished_run_is_not_missing_wherever_its_result_is(results: Path, tmp_path: Path) -> None:
    first, second, *_ = plan.missing(plan.Finished(), "screening")
    finish(results, first)
    assert first not in plan.missing(plan.Finished(tmp_path / "elsewhere"), "screening")
    finish(tmp_path / "elsewhere", second)
    left = plan.missing(plan.Finished(tmp_path / "elsewhere"), "screening")
    assert first not in left and second not in left and len(left) == 15


def test_a_repeat_stands_for_nothing_but_itself(results: Path) -> None:
    job = plan.missing(plan.Finished(), "screening")[0]
    (results / f"{job.name}-repeat.json").write_text("{}")
    assert job in plan.missing(plan.Finished(), "screening")


def test_finals_wait_for_the_screening_and_take_its_best_rate(results: Path) -> None:
    assert plan.missing(plan.Finished(), "finals-cifar10") == []
    screen(results, "scl", 0.6, 0.7, 0.5)
    finals = plan.missing(plan.Finished(), "finals-cifar10")
    assert {(job.method, job.rate, job.epochs) for job in finals} == {("scl", 0.3, 50)}
    assert [job.seed for job in finals] == [0, 1, 2]
    finished = plan.Finished()
    finished.assume_rates = True
    ready, planned = plan.ready(finished), plan.missing(finished)
    assert {finals[0], Job("cifar10", "paper", 0.6, 20), plan.brief("simclr", 0.3)} <= ready < set(planned)
    for waiting in (Job("cifar10", "paper", 0.6, 50), Job("cifar10", "simclr", 0.3, 50)):
        assert waiting in planned and waiting not in ready
    # At a large batch the default's rate is still to be found.
    assert plan.brief("scl", 0.3, 128, 2048) in planned and plan.brief("scl", 0.3, 128, 2048) not in ready
    assert plan.brief("scl", 0.3, 2048, 2048) in ready and plan.brief("scl", 0.3, 128, 256) in ready


def test_other_rows_take_the_best_rate_of_ten_epochs(results: Path) -> None:
    assert plan.missing(plan.Finished(), "others") == []
    for rate, knn in zip(METHODS["vicreg"].rates, (0.3, 0.2, 0.4), strict=True):
        finish(results, plan.brief("vicreg", rate), knn_held_out=knn)
    (job,) = plan.missing(plan.Finished(), "others")
    assert (job.method, job.rate, job.epochs) == ("vicreg", 0.75, plan.FINAL_EPOCHS)


def test_the_default_may_take_less_of_the_rate_at_a_large_batch(results: Path) -> None:
    screen(results, "scl", 0.6, 0.7, 0.5)

    def planned() -> dict[int, float]:
        jobs = plan.missing(plan.Finished(), "robustness-k")
        return {job.batch_size: job.rate for job in jobs if job.method == "scl"}

    for rate, knn in ((0.3, 0.5), (0.15, 0.6), (0.075, 0.4), (0.0375, 0.1)):
        assert planned() == {256: 0.3, 512: 0.3}
        finish(results, plan.brief("scl", rate, batch_size=plan.LARGE), knn_held_out=knn)
    assert planned() == {256: 0.3, 512: 0.3, 2048: 0.15}
    assert plan.brief("scl", 0.15, batch_size=2048).recipe().lr == pytest.approx(0.6)


def test_a_run_that_collapsed_does_not_win(results: Path) -> None:
    screen(results, "gram", 0.6, 0.5, 0.4)
    finish(results, Job("cifar10", "gram", 0.12, plan.SCREENING_EPOCHS), collapsed=1.0)
    assert plan.Finished().best_rate("gram") == 0.3


def test_accuracy_waits_for_its_search_and_takes_the_best_setting(results: Path) -> None:
    screen(results, "scl", 0.6, 0.7, 0.5)
    search = plan.missing(plan.Finished(), "accuracy-search")
    assert [(job.method, job.rate) for job in search] == [
        ("scl-wide", 0.3),
        ("scl-scale5", 0.3),
        ("scl-scale20", 0.3),
        ("scl-slow-projector", 0.3),
        ("scl-fast-projector", 0.3),
        ("scl", 0.6),
    ]
    for job in search:
        assert plan.missing(plan.Finished(), "accuracy") == []
        finish(results, job, knn_held_out=0.8 if job.method == "scl-scale20" else 0.6)
    (job,) = plan.missing(plan.Finished(), "accuracy")
    assert (job.method, job.epochs, job.part) == ("scl-scale20", plan.ACCURACY_EPOCHS, "accuracy")
    assert job.recipe().objective_options == {"scale": 20.0}


def test_records_wait_for_all_candidates_and_take_the_best_by_held_out_codes(results: Path) -> None:
    finished = plan.Finished()
    tried = list(plan.records(finished))
    assert [job.method for job in tried] == list(plan.CANDIDATES)
    assert {(job.part, job.epochs, job.rate) for job in tried} == {("candidates", 50, 0.75)}
    for place, job in enumerate(tried):
        assert list(plan.records(plan.Finished())) == tried
        finish(results, job, knn_code_held_out=0.9 if place == 2 else 0.8, knn_code_test=place / 10)
    for epochs in RECORD_EPOCHS:  # each waits for the one before it
        *_, last = plan.records(plan.Finished())
        assert (last.method, last.epochs, last.part) == (plan.CANDIDATES[2], epochs, "records")
        finish(results, last)
    found = list(plan.records(plan.Finished()))
    assert found[: len(tried)] == tried and len(found) == len(tried) + 3


@pytest.mark.parametrize(("held_out", "constant"), [(0.877, True), (0.87, False)])
def test_records_at_a_constant_rate_follow_one_another(results: Path, held_out: float, constant: bool) -> None:
    for job in plan.records(plan.Finished()):
        score = {plan.CONSTANT: held_out, plan.CANDIDATES[1]: 0.88}.get(job.method, 0.8)
        finish(results, job, knn_code_held_out=score)
    found = [job for job in plan.records(plan.Finished()) if job.part == "records"]
    assert {job.method for job in found} == {plan.CONSTANT if constant else plan.CANDIDATES[1]}
    assert [job.epochs for job in found] == [200]


def test_a_record_at_a_constant_rate_costs_what_it_adds() -> None:
    def seconds(method: str) -> list[float]:
        jobs = [Job("cifar10", method, 0.75, epochs, part="records") for epochs in RECORD_EPOCHS]
        return [plan.training_seconds(job) for job in jobs]

    # 200 epochs, then those from 160 to 800 and from 640 to 1,000.
    shares = [part / whole for part, whole in zip(seconds("scl-wide-late"), seconds("scl-wide"), strict=True)]
    assert shares == pytest.approx([1.0, 0.8, 0.36])


def test_each_remedy_for_large_batches_is_alone(results: Path) -> None:
    jobs = list(plan.batches(plan.Finished()))
    assert {job.batch_size for job in jobs} == {512, 2048} and {job.epochs for job in jobs} == {10}
    usual = Job("cifar10", "scl", 0.75, 10).recipe()
    for method in plan.REMEDIES:
        recipe = Job("cifar10", method, 0.75, 10).recipe()
        changed = {name for name, value in vars(usual).items() if getattr(recipe, name) != value} - {"name"}
        own = {"scl-lamb": {"optimizer", "weight_decay", "clip_norm"}, "scl-average": {"weight_average"}}
        own |= {"scl-warm": {"warmup"}, "scl-relative": {"clip_relative", "clip_norm"}}
        own |= {"scl-lars-warm": {"optimizer", "weight_decay", "clip_norm", "warmup"}}
        assert changed == own[method]


def test_more_pixels_and_wider_codes_take_longer() -> None:
    def seconds(data: str, k: int = 2048) -> float:
        job = Job(data, "scl", 0.3, 50, n_components=k)
        return plan.training_seconds(job) / SETS[data].train_images

    # Four times the pixels, but the network halves them on each side.
    assert seconds("tiny") == pytest.approx((4 * plan.VIEWS_SHARE + 1 - plan.VIEWS_SHARE) * seconds("cifar10"))
    assert seconds("cifar10", 128) == seconds("cifar10") < seconds("cifar10", 8192)
    # 50 epochs of CIFAR-10 took 154 to 167 seconds with four side by side.
    assert 4 * plan.training_seconds(Job("cifar10", "scl", 0.3, 50)) == pytest.approx(177, rel=0.05)


def test_what_is_to_come_is_listed(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["vision", "missing", "--stage", "accuracy", "--results", str(results)]) == 0
    listed, total = capsys.readouterr().out.splitlines()
    assert "accuracy-cifar10-scl-lr0.3-e200" in listed and listed.endswith("(waits for its rate)")
    assert total.endswith("s of the machine in all, 4 jobs side by side")


def test_finished_runs_are_summed_up(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["summary.py"])
    summary.main()
    said = capsys.readouterr().out
    assert "cifar10 scl lr 0.3 20 epochs k 2048 batch 512 seed 0: kNN held out 0." in said
    assert "   projector aligned " in said


def test_what_ran_is_what_would_run() -> None:
    """A recipe that changes must not change what the study's rows, finished and missing, have in common."""
    found = [json.loads(path.read_text(encoding="utf-8")) for path in RESULTS.glob("*.json")]
    runs = [result for result in found if "job" in result and "recipe" in result]
    assert len(runs) > 100
    for result in runs:
        would = json.loads(json.dumps(asdict(Job(**result["job"]).recipe())))
        did = result["recipe"]
        # The first runs were not compiled, and took the size from the images, which is the same.
        did |= {"compile": True, "image_size": did["image_size"] or 32}
        later = {"imagenet_pixels": False, "read_size": None, "whole_images": False, "clip_relative": None, "crops": 0}
        later |= {"decay": "cosine", "projector_layers": 2, "weight_average": 0.0}
        did = later | did
        assert did == would, Job(**result["job"]).name
