"""Whole programs on the fast simulator: against a model that ticks every cycle, and against the golden model."""
