"""A whole evaluation as one file: read, planned as a whole, run so that it can be stopped and go on."""
