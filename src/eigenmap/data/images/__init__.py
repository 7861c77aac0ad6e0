"""Images: reading, decoding, labels, sources of any size."""
