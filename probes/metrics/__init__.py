"""Metrics: per-sample values or counts that add up, then a value."""
