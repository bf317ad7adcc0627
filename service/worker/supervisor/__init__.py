"""The parent process, its worker processes, and the tie between them."""
