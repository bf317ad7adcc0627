"""The backend of the doors keeps keys, spool and listeners, and asks the servers for the routes."""
