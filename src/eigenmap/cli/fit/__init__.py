"""`eigenmap fit`: one file per kind of data."""
