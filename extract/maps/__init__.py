"""Maps that say something of every pixel of an image: their files, what they mean, and a backbone's frame."""
