"""Loading: pixels where the device finds them, and batches made one step ahead."""
