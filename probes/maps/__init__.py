"""Tasks whose answer is a map: what the head's output means, its loss, its metrics, its baselines and ceiling."""
