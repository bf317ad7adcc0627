"""The acts and questions of people, one in each module; the command line and HTTP call them."""
