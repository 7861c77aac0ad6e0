"""Numbers of the paper, and of its authors' log if they differ from what the text suggests."""

from __future__ import annotations

BATCH_SIZES = {
    256: {"scl": "63.0", "barlow-twins": "57.6", "unordered": "60.5"},
    512: {"scl": "64.6", "barlow-twins": "60.3", "unordered": "63.3"},
    1024: {"scl": "65.6", "barlow-twins": "61.8", "unordered": "65.7"},
    2048: {"scl": "66.5", "barlow-twins": "60.4", "unordered": "66.8"},
}
"""Table 2: linear probe on ImageNet, projector of 2,048."""
PROJECTORS = {
    2048: {"scl": "66.5", "barlow-twins": "60.4", "unordered": "66.8"},
    4096: {"scl": "67.1", "barlow-twins": "63.9", "unordered": "67.7"},
    8192: {"scl": "NaN", "barlow-twins": "66.2", "unordered": "68.4"},
}
"""Table 3: batch 2,048."""
EPOCHS = {
    100: {"simsiam": "68.1", "unordered": "68.4"},
    200: {"simsiam": "70.0", "unordered": "70.3"},
    400: {"simsiam": "70.8", "unordered": "71.5"},
}
"""Table 4."""
DETECTION = {
    "supervised": ("58.2", "38.2", "41.2", "54.7", "33.3", "35.2"),
    "barlow-twins": ("59.0", "39.2", "42.5", "56.0", "34.3", "36.5"),
    "unordered": ("59.6", "39.9", "43.5", "56.3", "34.9", "37.4"),
}
"""Table 5: AP50, AP, AP75 of boxes, then of masks; COCO."""
PRODUCTS = (
    ("Plain MLP", "62.16 ± 0.15", "57.44 ± 0.20", "47.76 ± 0.62"),
    ("Laplacian Eigenmap + MLP", "64.21 ± 0.35", "58.99 ± 0.20", "49.94 ± 0.30"),
    ("Node2vec + MLP", "72.50 ± 0.46", "68.72 ± 0.43", "61.97 ± 0.44"),
    ("GCN", "75.72 ± 0.31", "73.14 ± 0.34", "67.61 ± 0.48"),
    ("the paper's, unordered (its row)", "78.33 ± 0.08", "75.78 ± 0.46", "68.04 ± 0.39"),
    ("the paper's, ordered (authors' log)", "76.93", "74.48", "67.84"),
)
"""Table 6: accuracy on OGBN-Products with 100, 10 and 1 % of the labels."""
SHORT_CODES = {
    "NUS-WIDE": {
        "the paper's, ordered": ("0.6706", "0.7213", "0.7401", "0.7446"),
        "SCL + PCA": ("0.4845", "0.6679", "0.7368", "0.7579"),
        "SCL, random features": ("0.5439", "0.5866", "0.5909", "0.6207"),
    },
    "COCO": {
        "the paper's, ordered": ("0.5934", "0.6420", "0.6657", "0.6832"),
        "SCL + PCA": ("0.4819", "0.5645", "0.6360", "0.6902"),
        "SCL, random features": ("0.4995", "0.5714", "0.5572", "0.5882"),
    },
}
"""Tables 7 and 8: mAP of 4, 8, 16 and 32 features."""
