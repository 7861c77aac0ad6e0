"""Programs to read and change: ordered codes of things other than images, from two views of each."""
