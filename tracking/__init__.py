"""The nouns that every other package uses. Standard library only."""
