"""How couriers' answers are read: values, times, places, phrases, check digits."""
