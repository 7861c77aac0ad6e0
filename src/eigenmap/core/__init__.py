"""The core: what every room may use and none owns."""
