"""The nouns: what every other package talks about. Standard library only."""
