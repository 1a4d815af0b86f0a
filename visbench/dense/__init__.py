"""Probes whose answer is a map: their targets, the streams they learn from, their training and their scores."""
