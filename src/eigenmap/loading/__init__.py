"""Data loading: pixel storage and prefetching."""
