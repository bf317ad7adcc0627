"""`demo`: the worker at work on this machine, with made-up couriers and a proof at the end."""
