"""Pictures of what a probe saw, should have said and said; a module a kind of view, arrays in and images out."""
