"""Example programs: ordered codes of audio, point clouds, table rows and video, from two views of each item."""
