"""What people may ask and do, an act in each module; the command line and HTTP both call it."""
