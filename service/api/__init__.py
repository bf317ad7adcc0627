"""What programs may ask over HTTP: reads it, has `client` do it, and writes what came of it."""
