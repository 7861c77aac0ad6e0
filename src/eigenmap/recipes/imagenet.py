"""The paper's ImageNet recipes: ResNet-50, its ordered objective, LARS, 100 / 200 / 400 epochs.

Deng, Shi, Zhang, Cui, Lu, Zhu. Neural Eigenfunctions Are Structured Representation Learners. ICLR 2024.
"""

from eigenmap.recipes.recipe import Recipe

_EPOCHS = (100, 200, 400)

IMAGENET = tuple(
    Recipe(
        name=f"imagenet-resnet50-{epochs}",
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
    for epochs in _EPOCHS
)
"""Rate 0.3 per 256 images, 10 epochs of warm-up; `scale` 20 is the scale of the authors' loss."""
