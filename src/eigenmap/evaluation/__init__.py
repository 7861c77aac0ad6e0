"""Evaluation of codes: retrieval, nearest neighbours and linear probes, as pure functions of tensors.

`retrieval` (mAP and precision at any code length, and its baselines), `neighbours` (weighted kNN), `probe` (linear
probes and label fractions), `classes` (kNN and probes at every code length), `nodes` and `few_labels` (node
classification), `vectors` (judged search), `ranking` (the exact cosine ranking), `baselines` (comparison with PCA,
pixels and random order), `excitation` (images that excite a feature, existing or synthesised).
"""
