"""Recipes for GPUs, trained from scratch with the spectral contrastive objective.

They follow the results of `docs/objective-study.md` on CIFAR-10: SGD with the gradient norm clipped at 1, and codes
ordered after training by held-out alignment.
"""

from eigenmap.recipes.recipe import Recipe

CIFAR10_RESNET18 = Recipe(
    name="cifar10-resnet18",
    encoder="resnet18",
    image_size=32,
    n_components=2048,
    objective="scl",
    views="cifar-wide",
    epochs=200,
    batch_size=512,
    optimizer="sgd",
    lr=0.75,
    weight_decay=5e-4,
    warmup=0.1,
    clip_norm=1.0,
    precision="bf16-mixed",
    channels_last=True,
)
"""Small pictures of 32 pixels. Crops of at least a fifth of the image were the best of those tried."""

TINY_RESNET18 = CIFAR10_RESNET18.but(image_size=64, views="cifar", stem="medium").named("tiny-resnet18")
"""Tiny-ImageNet, 64 pixels; the 3x3 stem with stride 2 makes a step as cheap as at 32 pixels."""

COCO_RESNET18 = CIFAR10_RESNET18.but(image_size=96, views="barlow_twins", stem="imagenet").named("coco-resnet18")
"""Scenes at 96 pixels."""

GPU = COCO_RESNET18.but(n_components=512, views="cifar", epochs=100, lr=0.3).named("gpu")
"""A folder of photos on a machine with a GPU; `auto` selects it there."""

VISION = (CIFAR10_RESNET18, TINY_RESNET18, COCO_RESNET18, GPU)
