"""One file for each kind of release: its section of the study file, what must be true of it, what it will be."""
