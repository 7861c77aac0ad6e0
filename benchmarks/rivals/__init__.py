"""Rivals of the eigenfunction benchmark that the library does not have: small, as published, for full batches."""
