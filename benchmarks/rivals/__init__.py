"""What node codes are measured against, written here in plain torch: every row of the paper's Table 6, and BGRL."""
