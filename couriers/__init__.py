"""How to ask each courier."""
