"""Tasks whose answers are boxes: heads trained on grids of features, scored by average precision."""
