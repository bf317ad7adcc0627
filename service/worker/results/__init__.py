"""MongoDB: results, dead requests, and reading them."""
