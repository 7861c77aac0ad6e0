"""Numbers of hand-written sentences that no result file has: settings, definitions, citations, runs without a file.

Pages that are generated as a whole (docs/benchmarks.md, catalogue.md, eigenfunctions.md, graph-benchmarks.md,
vector-benchmarks.md) are not here: the tests of their generators compare them.
"""

from __future__ import annotations

EXCEPTIONS: dict[str, tuple[str, ...]] = {
    "README.md": (
        "With Python 3.10 or later",  # what is needed
        "Version 0.1: names",  # the version
        "arXiv:2210.12637",  # a citation
        "Apache-2.0",  # a licence
    ),
    "docs/objective-study.md": (
        # A setting; the sentence after it says that no result file is left.
        "Without clipping, SGD at rate 0.12 and a short warm-up",
        # Rows with `scale` = 1, whose files were thrown away: docs/benchmarks.md at commit 6ffb7eb has them.
        "against 0.551 at LARS 0.6 after 20 epochs",
        "its own order had 0.484 at 16 features and 0.522 at full length",
        "Aligned it had 0.546 and 0.549,",
        "torch 2.11 lost the gradient",  # a version
        "gradients clipped at 1, rate 0.75,",  # a setting of the recipes
        "(`gpu`, for folders of any size, stays at 0.3)",  # a setting
    ),
    "docs/graphs.md": (
        "random splits of 10 / 10 / 80 %. It fits a linear probe to 1, 10 and 100 % of the training labels",  # protocol
        "(0.3 times the t = 10 of the published code)",  # a setting of the paper
        "all training labels (10 % of the nodes)",  # a protocol
        "at most 3 % below the best",  # settings of the fit, `neighbours.SLACK` and `size.WORTH`
        "by at least 3 %, and by 5 % for every doubling of its cost",
    ),
    "docs/search.md": (),
    "docs/search-benchmarks.md": (),
    "docs/index-on-disk.md": (
        "version 2 (eigenmap 0.1)",  # a version
    ),
    "docs/images.md": (),
    "docs/results.md": (),
    "docs/method.md": (
        # The paper's strength in the convention of the page: definitions and arithmetic.
        "The published alpha_paper is 0.005 * 4096 / k, which makes alpha = 204.8 / k: 0.1, 0.05 and 0.025 for k",
        "In our convention, a strength of 0.005 would be ten times too weak",
        "the penalty is (204.8/k) (k^2/2) r^2",
        "would make mu = -0.5 look like 0.5",  # an example
        "`map_over_relevant@100` cannot exceed 0.1 there",  # 100 of 1,000 relevant items: a definition
        "arXiv:2210.12637",  # a citation
    ),
    "docs/kernels.md": (),
    "docs/explorer.md": (),
    "docs/embedding-at-scale.md": (),
    "docs/databases.md": (
        "(https://github.com/pgvector/pgvector) 0.8 or later",  # what is needed
    ),
}
"""Page -> words around such numbers, exactly as they stand there."""
