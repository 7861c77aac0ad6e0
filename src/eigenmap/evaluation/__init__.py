"""Evaluation of codes: retrieval, nearest neighbours and linear probes, as pure functions of tensors.

`retrieval` (mAP and precision at any code length, and its baselines), `neighbours` (weighted kNN), `probe` (linear
probes and label fractions), `classes` (these two at every code length), `ranking` (the exact cosine ranking shared by
the first two), `baselines` (a model beside PCA, pixels and random order), `excitation` (images that excite a feature,
found or synthesised).
"""
