"""How each kind of release is told: in the file of its noisy numbers, in its registry record, on its pages."""
