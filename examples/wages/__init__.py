"""The wages example: fifty thousand synthetic employees, observed every month."""
