"""What the doors keep, and ask of the servers; the routes above read requests and write answers."""
