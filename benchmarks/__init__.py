"""How near the worker comes to a bare HTTP loop, and how exact its limits are at a courier."""
