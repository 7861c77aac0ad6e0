"""`eigenmap figures`, `report` and `reproduce`."""
