"""`eigenmap evaluate`: one file per measurement."""
