"""Who is protected, up to what, and everything that was ever charged and released."""
