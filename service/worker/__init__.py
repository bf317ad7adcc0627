"""The worker: requests from reserve to delete, and all that runs beside them in its processes."""
