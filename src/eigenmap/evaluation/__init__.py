"""How good codes are: retrieval, nearest neighbours and linear probes, all pure functions of tensors.

`retrieval` (mAP and precision at any code length, and its baselines), `neighbours` (weighted kNN), `probe`
(linear probes and label fractions), `ranking` (the exact cosine ranking that the first two share).
"""
