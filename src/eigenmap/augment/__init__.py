"""Augmentation: two views of an image, the random draws behind them, and pixel operations."""
