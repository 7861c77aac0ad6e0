"""The paper's ImageNet recipes: ResNet-50 and LARS, two models, two augmentations, 100 / 200 / 400 epochs.

Deng, Shi, Zhang, Cui, Lu, Zhu. Neural Eigenfunctions Are Structured Representation Learners. ICLR 2024.

The paper's linear probes use the unordered form with 8,192 features (`imagenet-probe`), its retrieval figures the
ordered form with 4,096 (`imagenet-retrieval`). According to the text, views are SimCLR's; the authors' code uses those
of Barlow Twins, which are BYOL's: weaker colours, the first view always blurred, the second rarely blurred and
sometimes solarised. Recipes whose name ends with `-simclr` follow the text, the others the code.
"""

from eigenmap.recipes.recipe import Recipe

_EPOCHS = (100, 200, 400)


def _recipe(name: str, epochs: int) -> Recipe:
    """Return a recipe with rate 0.3 per 256 images, 10 epochs of warm-up, and `scale` 20 as in the authors' loss."""
    return Recipe(
        name=name,
        encoder="resnet50",
        stem="imagenet",
        image_size=224,
        n_components=8192,
        objective="neuralef",
        objective_options={"alpha": "paper", "scale": 20.0},
        views="barlow_twins",
        epochs=epochs,
        batch_size=2048,
        optimizer="lars",
        lr=2.4,
        weight_decay=1e-6,
        warmup=10 / epochs,
        final_lr_fraction=0.001,
        precision="bf16-mixed",
        channels_last=True,
    )


def _as_published(name: str, objective: str, n_components: int, views: str = "barlow_twins") -> Recipe:
    """Return a recipe with crops of whole images, ImageNet's standardisation, and plain images cut from 256 to 224."""
    return (
        _recipe(name, epochs=100)
        .but(objective=objective, n_components=n_components, views=views)
        .but(read_size=256, whole_images=True, imagenet_pixels=True)
    )


PROBE = _as_published("imagenet-probe", "neuralef-unordered", 8192)
PROBE_SIMCLR = _as_published("imagenet-probe-simclr", "neuralef-unordered", 8192, "simclr")
RETRIEVAL = _as_published("imagenet-retrieval", "neuralef", 4096)
RETRIEVAL_SIMCLR = _as_published("imagenet-retrieval-simclr", "neuralef", 4096, "simclr")

IMAGENET = (
    PROBE,
    PROBE_SIMCLR,
    RETRIEVAL,
    RETRIEVAL_SIMCLR,
    *(_recipe(f"imagenet-resnet50-{epochs}", epochs) for epochs in _EPOCHS),
)
"""The last three come from an earlier version: the ordered form, 8,192 features, crops of central squares."""
