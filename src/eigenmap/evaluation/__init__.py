"""How good codes are: retrieval, nearest neighbours and linear probes, all pure functions of tensors.

`retrieval` (mAP and precision at any code length, and its baselines), `neighbours` (weighted kNN), `probe`
(linear probes and label fractions), `classes` (these two at every code length), `ranking` (the exact cosine ranking
that the first two share), `baselines` (a model beside PCA, pixels and random order), `excitation` (which images excite
a feature, found or made).
"""
