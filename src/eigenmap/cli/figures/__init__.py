"""`eigenmap figures`, `report`, `reproduce`: pictures and pages."""
