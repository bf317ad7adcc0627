"""The admin of Redis: reads and acts for people; nothing here decides who calls."""
