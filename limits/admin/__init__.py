"""What people look at and do, as an admin client does; nothing here decides who calls."""
