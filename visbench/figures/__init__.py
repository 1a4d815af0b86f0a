"""Pictures of results: `sweep` draws a file with matplotlib, `terminal` shows the same in characters."""
