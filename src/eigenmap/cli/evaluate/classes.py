"""`eigenmap evaluate classes`: classification of images from codes of every length."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from eigenmap.cli.console import log_function
from eigenmap.cli.evaluate.probing import (
    CodesOf,
    CodesOfOption,
    LabelSharesOption,
    check_uncut,
    shares_of,
    show_by_share,
)
from eigenmap.cli.evaluate.retrieval import DimsOption, NumberLists, circumstances, evaluate, read_labelled
from eigenmap.cli.options import (
    HOW,
    WHAT,
    BatchOption,
    Device,
    DeviceOption,
    ForceOption,
    JsonOption,
    ModelArgument,
    QuietOption,
    StrictOption,
    check_device,
    option,
)
from eigenmap.cli.outputs import check_files, write_json_output
from eigenmap.core.errors import EigenmapError
from eigenmap.core.logging import LogFunction

if TYPE_CHECKING:
    from torch import Tensor

    from eigenmap.data import ImageSet
    from eigenmap.evaluation.classes import ClassRow
    from eigenmap.model import Eigenmap


class ImageProbe(str, Enum):
    """Kinds of linear probes; see `eigenmap.evaluation.probe`."""

    ridge = "ridge"
    sgd = "sgd"


@evaluate.command(
    cls=NumberLists,
    no_args_is_help=True,
    epilog="""
Examples:

[cyan]  eigenmap evaluate classes runs/mine --train TRAIN/ --test TEST/ --json r.json[/cyan]

[cyan]  eigenmap evaluate classes runs/mine --train TRAIN/ --test TEST/ --labels 1 100 --dims 8 64 --probe sgd[/cyan]
""",
)
def classes(
    run: ModelArgument,
    train: Annotated[Path, option("--train SOURCE", "Images to learn classes from.", WHAT)],
    test: Annotated[
        Path, option("--test SOURCE", "Images to classify; they must not be among the training images.", WHAT)
    ],
    train_labels: Annotated[
        Path | None,
        option(
            "--train-labels CSV",
            "A table `file,labels` with one label per file [dim](default: class folders)[/dim].",
            WHAT,
        ),
    ] = None,
    test_labels: Annotated[
        Path | None, option("--test-labels CSV", "Like --train-labels, for the test images.", WHAT)
    ] = None,
    labels: LabelSharesOption = None,
    dims: DimsOption = None,
    probe: Annotated[
        ImageProbe,
        option("--probe", "ridge: closed form; sgd: 100 epochs at rate 0.1 on standardised features.", HOW, shown=True),
    ] = ImageProbe.ridge,
    neighbours: Annotated[int, option("--neighbours N", "Neighbours that vote.", HOW, min=1, shown=True)] = 200,
    of: CodesOfOption = CodesOf.codes,
    batch_size: BatchOption = 256,
    device: DeviceOption = Device.auto,
    strict: StrictOption = False,
    json: JsonOption = None,
    force: ForceOption = False,
    quiet: QuietOption = False,
) -> None:
    """Classify test images by their codes, using a share of the training labels.

    [bold]knn[/bold]     accuracy of a weighted vote of the nearest training images
    [bold]linear[/bold]  accuracy of a linear probe
    """
    from eigenmap.evaluation.classes import evaluate_classes
    from eigenmap.evaluation.retrieval import lengths
    from eigenmap.model import Eigenmap

    check_files(force, json, reads=[run, train, test, train_labels, test_labels])
    shares = shares_of(labels)
    check_uncut(of, dims)
    if train.resolve() == test.resolve():
        raise EigenmapError("--train and --test are the same images, so each would find itself: give others to test.")
    place = check_device(device)
    model = Eigenmap.load(run)
    at = [model.check_dim(dim) for dim in dims] if dims else lengths(model.n_components)
    known = read_labelled(model, train, train_labels, "--train-labels", strict, quiet)
    asked = read_labelled(model, test, test_labels, "--test-labels", strict, quiet)
    y, y_test = _class_numbers(known, asked, log_function(quiet))
    model.network.to(place)
    x, x_test = (_features(model, images, of, batch_size) for images in (known, asked))
    rows = evaluate_classes(
        *(x[y >= 0], y[y >= 0], x_test[y_test >= 0], y_test[y_test >= 0]),
        dims=at if of is CodesOf.codes else [x.shape[1]],
        shares=shares,
        probe=probe.value,
        n_neighbours=neighbours,
        device=place,
    )
    if json is not None:
        protocol = {
            "train": str(train),
            "train_images": int((y >= 0).sum()),
            "test": str(test),
            "test_images": int((y_test >= 0).sum()),
            "classes": len(set(y[y >= 0].tolist())),
            "of": of.value,
            "knn": f"{neighbours} neighbours by cosine, weights exp(cosine / 0.1)",
            "linear": "closed-form ridge, strength chosen on a fifth of the training labels"
            if probe is ImageProbe.ridge
            else "softmax regression on standardised features: SGD 0.1, batch 256, 100 epochs, cosine",
        }
        write_json_output(json, {**circumstances(run, model, place, "classes"), "protocol": protocol, "rows": rows})
    show_by_share(rows, f"{int((y_test >= 0).sum()):,} test images", ("knn", "linear"), _cells)


def _class_numbers(known: ImageSet, asked: ImageSet, say: LogFunction) -> tuple[Tensor, Tensor]:
    """Return class numbers of both sets, as numbered in the training images; -1 without a label."""
    import torch

    assert known.labels is not None and asked.labels is not None
    y = known.labels.to_integers()
    own, theirs = asked.labels.to_integers(), asked.labels.in_classes(known.labels.names).to_integers()
    # Test classes absent from training get numbers that no probe ever predicts.
    y_test = torch.where((own >= 0) & (theirs < 0), known.labels.n_classes, theirs)
    for which, numbers in (("training", y), ("test", own)):
        if not bool((numbers >= 0).any()):
            raise EigenmapError(f"None of the {which} images has a label.")
    lost = int((y_test == known.labels.n_classes).sum())
    if lost == int((own >= 0).sum()):
        raise EigenmapError("Training and test images have no class in common.")
    if lost:
        say(f"{lost:,} test images have classes that no training image has; they count as errors.")
    return y, y_test


def _features(model: Eigenmap, images: ImageSet, of: CodesOf, batch_size: int) -> Tensor:
    """Return ordered codes, or encoder outputs, of all images."""
    import torch

    if of is CodesOf.encoder:
        return torch.cat(list(model.raw(images.pixels, batch_size, source="encoder")))
    return torch.from_numpy(model.encode(images.pixels, normalize=False, batch_size=batch_size))


def _cells(row: ClassRow) -> list[str]:
    return [f"{row['knn']:.4f}", f"{row['linear']:.4f}"]
