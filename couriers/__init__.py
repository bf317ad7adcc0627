"""The couriers: a module asks each courier, and reads its answers."""
