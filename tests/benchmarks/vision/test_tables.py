"""The generated page says what the results say, and no more."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from benchmarks.common.pages import emphasise, figure, made_by, table
from benchmarks.vision import plan, tables
from benchmarks.vision.jobs import Job
from benchmarks.vision.speed_tables import in_short

LENGTHS = [2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048]


def result(job: Job, **level: float) -> dict[str, object]:
    """A made-up result, every code flat at its own level."""

    def rows(name: str, dims: list[int]) -> list[dict[str, float]]:
        return [{"dim": dim, "map_over_found@1000": level.get(name, 0.1)} for dim in dims]

    encoder, projector = LENGTHS[:9], LENGTHS
    codes = {f"encoder {kind}": rows(f"encoder_{kind.split()[-1]}", encoder) for kind in ("PCA centred", "aligned")}
    codes |= {"encoder PCA uncentred": rows("", encoder), "encoder random features": rows("", encoder)}
    for kind in ("own order", "aligned", "random features"):
        codes[f"projector {kind}"] = rows(f"projector_{kind.split()[0]}", projector)
    environment = {"device": "a card", "torch": "2", "commit": "abc", "date": "2026-01-01"}
    accuracies = {"knn_held_out": 0.5, "knn_test": 0.5, "linear_ridge_test": 0.5} | level
    return {
        "job": vars(job),
        "chosen_source": "projector",
        "retrieval": codes,
        "seconds_training": 60.0,
        **environment,
        **accuracies,
    }


def write(folder: Path, job: Job, **level: float) -> None:
    (folder / f"{job.name}.json").write_text(json.dumps(result(job, **level)))


def section(page: str, title: str) -> str:
    return next(part for part in page.split("\n## ") if part.startswith(title))


def row(page: str, label: str) -> list[str]:
    line = next(line for line in page.splitlines() if line.startswith(f"| {label} |"))
    return [cell.strip() for cell in line.strip("|").split("|")][1:]


def test_without_results_everything_is_not_run(tmp_path: Path) -> None:
    page = tables.page(tmp_path)
    for line in page.splitlines():
        heads = ("| code", "| method", "| ---", "| objective", "| run", "| setting", "| remedy", "| candidate", "|  |")
        if line.startswith("| ") and not line.startswith(heads) and "published by lightly" not in line:
            cells = [cell.strip() for cell in line.strip("|").split("|")][1:]
            assert set(cells) <= {"not run", "0", "–"}, line
    assert page.count("No run yet.") == 16
    assert "ResNet-50 / 224 pixels, k = 8,192: not run." in page


def test_ordered_objectives_at_the_largest_k_have_a_table_of_their_own(tmp_path: Path) -> None:
    gram = next(job for job in plan.wide(plan.Finished(tmp_path)) if job.method == "gram")
    write(tmp_path, gram, projector_own=0.25)
    found = section(tables.page(tmp_path), "CIFAR-10, k = 8,192")
    assert row(found, "Gram penalty, own order") == ["**0.250**"] * 11
    assert set(row(found, "the paper's ordered objective, own order")) == {"not run"}


def test_the_row_of_the_default_is_the_output_chosen_on_held_out_pairs(tmp_path: Path) -> None:
    job = Job("cifar10", "scl", 0.3, plan.SCREENING_EPOCHS)
    write(tmp_path, job, projector_aligned=0.25, encoder_aligned=0.75, encoder_centred=0.2)
    screening = section(tables.page(tmp_path), "CIFAR-10, screening")
    assert row(screening, tables.DEFAULT.label) == ["**0.250**"] * 11
    # The encoder has 512 features: nothing at 1,024, and its full length is 512.
    assert row(screening, tables.LEADING[2].label)[7:] == ["0.200", "0.200", "–", "0.200"]
    assert row(screening, tables.LEADING[1].label) == ["not run"] * 11
    assert "Rates that ran: scl 1 of 3, matryoshka-scl 0 of 3, gram 0 of 3, nested 0 of 3, paper 0 of 5." in screening
    assert "a card, torch 2; commit abc; 2026-01-01; seed 0; 1 run." in screening
    assert "16 features of the default give 0.250; random features" in screening and "never reach that" in screening


def test_the_screening_shows_the_rate_that_is_best_on_held_out_images(tmp_path: Path) -> None:
    for rate, knn, found in ((0.12, 0.6, 0.3), (0.3, 0.5, 0.9)):
        write(tmp_path, Job("cifar10", "scl", rate, plan.SCREENING_EPOCHS), knn_held_out=knn, projector_aligned=found)
    page = tables.page(tmp_path)
    assert row(section(page, "CIFAR-10, screening"), tables.DEFAULT.label)[0] == "**0.300**"
    grid = section(page, "CIFAR-10, the grid of rates")
    assert row(grid, "scl, SGD 0.12")[0] == "0.600" and row(grid, "scl, SGD 0.75") == ["not run"] * 3


def test_several_seeds_are_a_mean_with_its_spread(tmp_path: Path) -> None:
    for seed, found in enumerate((0.2, 0.3, 0.4)):
        write(tmp_path, Job("cifar10", "scl", 0.3, plan.FINAL_EPOCHS, seed), projector_aligned=found)
    finals = section(tables.page(tmp_path), "CIFAR-10, finals")
    assert row(finals, tables.DEFAULT.label)[3] == "**0.300 ± 0.100**"
    assert row(finals, "scl") == ["0.500 ± 0.000", "0.500 ± 0.000", "3"]
    assert "seeds 0, 1, 2; 3 runs." in finals


def test_a_mean_is_over_all_seeds_or_not_there(tmp_path: Path) -> None:
    """The encoder has 512 features, the projector 2,048: at 1,024 only one of two seeds has a value."""
    for seed, source in enumerate(("encoder", "projector")):
        job = Job("cifar10", "scl", 0.3, plan.FINAL_EPOCHS, seed)
        made = result(job, encoder_aligned=0.2, projector_aligned=0.4) | {"chosen_source": source}
        (tmp_path / f"{job.name}.json").write_text(json.dumps(made))
    cells = row(section(tables.page(tmp_path), "CIFAR-10, finals"), tables.DEFAULT.label)
    assert cells[8:] == ["**0.300 ± 0.141**", "–", "**0.300 ± 0.141**"]


def test_a_collapse_is_shown(tmp_path: Path) -> None:
    job = Job("cifar10", "paper", 0.6, plan.SCREENING_EPOCHS)
    (tmp_path / f"{job.name}.json").write_text(json.dumps(result(job) | {"collapsed": "the network collapsed"}))
    page = tables.page(tmp_path)
    assert row(page, tables.LEADING[3].label) == ["collapsed (1 of 1)"] * 11
    assert row(page, "paper, LARS 0.6") == ["collapsed"] * 3


def test_robustness_and_accuracy_are_found_by_their_parts(tmp_path: Path) -> None:
    wide = Job("cifar10", "gram-lars", 0.6, 10, 0, 8192, 256, part="robustness")
    write(tmp_path, wide, linear_ridge_test=0.61)
    write(tmp_path, Job("cifar10", "scl", 0.3, 200, part="accuracy"), knn_test=0.91, linear_sgd_test=0.92)
    page = tables.page(tmp_path)
    cells = row(page, "neuralef-gram, LARS")
    assert cells[6] == "0.610" and cells.count("not run") == 8
    assert row(page, "scl, rate 0.3") == ["10%", "0.910", "not run", "0.920", "0.500", "1.0"]


def test_repeats_are_one_line_each_and_nothing_else(tmp_path: Path) -> None:
    job = Job("cifar10", "scl", 0.3, plan.SCREENING_EPOCHS)
    write(tmp_path, job, projector_aligned=0.5, knn_test=0.7)
    alone = tables.page(tmp_path)
    shutil.copy(tmp_path / f"{job.name}.json", tmp_path / "kept")
    write(tmp_path, job, projector_aligned=0.48, knn_test=0.71)
    shutil.move(tmp_path / f"{job.name}.json", tmp_path / f"{job.name}-repeat.json")
    shutil.move(tmp_path / "kept", tmp_path / f"{job.name}.json")
    both = tables.page(tmp_path)
    heading, line = sorted(set(both.splitlines()) - set(alone.splitlines()), reverse=True)
    assert heading.startswith("Run-to-run difference") and line.endswith("at most 0.020; kNN 0.010")


def test_the_choice_without_labels_stands_beside_the_best_fixed_one(tmp_path: Path) -> None:
    job = Job("cifar10", "scl", 0.3, plan.SCREENING_EPOCHS)
    study = {
        "projector ridge 0.01 t 4 captured 0.800": [0.6, 0.8],
        "projector ridge 10 t 0 captured 0.700": [0.1, 0.1],
        "encoder ridge 0 t 1 captured 0.900": [0.9, 0.9],
    }
    alignment = {"projector": {"ridge": 0.001, "t": 2.0}, "encoder": {"ridge": 1.0, "t": 1.0}}
    made = result(job, projector_aligned=0.65) | {"study": study, "alignment": alignment}
    (tmp_path / f"{job.name}.json").write_text(json.dumps(made))
    page = tables.page(tmp_path)
    assert row(page, "scl 0.3") == ["projector, ridge 0.001, t = 2", "0.650", "ridge 0.01, t = 4", "0.700", "+0.050"]
    assert "ridge 0.01 and t = 4, is +0.050 against the choice" in page


def test_speed_shows_every_part_that_ran(tmp_path: Path) -> None:
    speeds = {"images_per_second": 900.0, "limit_images_per_second": 1000.0, "share": 0.9}
    about = {"device": "a card", "torch": "2", "commit": "abc", "date": "2026-01-01"}
    names = ("views alone", "objective alone", "clipping and optimizer alone")
    made = {
        "settings": {"encoder": "resnet50", "size": 224, "components": 8192, "batch_size": 256, "objective": "scl"},
        "rows": [{"compiled": False, "seconds": dict.fromkeys(names, 0.002), **speeds}],
        "accumulated": {"batch_size": 2048, "chunks": 8, **speeds},
        "loader": {"not_run": "torchvision not installed"},
        "objectives": [{"objective": "scl (ours)", "k": 4096, "ms": 1.5, "peak_mb": 99.6}],
        **about,
    }
    (tmp_path / "speed-resnet50-224.json").write_text(json.dumps(made))
    page = tables.page(tmp_path)
    assert row(page, "eager") == ["900", "1,000", "90 %", "2.0", "2.0", "2.0"]
    assert row(page, "batch 2,048 in 8 exact chunks")[:3] == ["900", "1,000", "90 %"]
    assert row(page, "views by CPU workers")[0] == "not run: torchvision not installed"
    assert row(page, "scl (ours), k = 4,096") == ["1.50", "100"]
    assert "224 pixels, k = 8,192: not run" not in page
    said = in_short({"speed-resnet50-224": made})
    assert said.startswith("A full training step reaches 90 % of") and "with resnet50 at 224 pixels (900 images" in said
    assert "per second on one a card, `scl`, k = 8,192, batch 256)." in said
    assert said.endswith("A batch that is computed in exact chunks reaches 90 % at 224 pixels (batch 2,048).")


def test_pieces_of_a_page() -> None:
    assert table(["a", "b"], [["x", "1"]]) == "| a | b |\n| --- | ---: |\n| x | 1 |"
    assert figure([0.5]) == "0.500" and figure([0.4, 0.6]) == "0.500 ± 0.141"
    assert emphasise([["a", "0.5"], ["b", "0.5"], ["c", "0.4"]])[:2] == [["a", "**0.5**"], ["b", "**0.5**"]]
    assert made_by([]) == "No run yet."
    with pytest.raises(KeyError):
        made_by([{"device": "a card"}])


def test_rows_ahead_of_ours_come_first(tmp_path: Path) -> None:
    job = Job("cifar10", "scl", 0.3, plan.FINAL_EPOCHS)
    write(tmp_path, job, projector_aligned=0.5, knn_test=0.7)
    top = tables.page(tmp_path).split("## What was measured")[0]
    assert "- Tiny-ImageNet-100: none." in top
    cells = dict(tables.compared(tables.Results(tmp_path)))
    assert cells["CIFAR-10"][0][0].startswith("**ours**")
