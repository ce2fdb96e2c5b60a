"""The study file: read strictly, checked whole, and turned into what the other rooms need."""
