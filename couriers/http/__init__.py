"""How couriers are asked: addresses, tokens, permits, refusals; nothing leaves another way."""
