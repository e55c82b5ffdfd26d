"""sw/report."""
