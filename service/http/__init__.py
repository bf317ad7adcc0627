"""What programs may ask over HTTP: routes read it, have it done, and write what came of it."""
