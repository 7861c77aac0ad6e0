"""`eigenmap index`, `search`, `advise` and `duplicates`."""
