"""`eigenmap index`, `search`, `advise`, `duplicates`: everything about an index."""
