"""sim/fast."""
