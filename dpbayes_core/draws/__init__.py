"""Private draws of parameters: exact samples of tempered, truncated posteriors."""
