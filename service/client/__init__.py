"""What people and programs may ask of the system; `cli` only prints it."""
