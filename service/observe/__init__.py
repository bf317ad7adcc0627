"""What the worker says about itself."""
