"""The doors: routes read what programs ask over HTTP, have it done, and write what came of it."""
