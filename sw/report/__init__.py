"""Reports: what a run says, as tables and as JSON."""
