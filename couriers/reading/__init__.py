"""Reading couriers' answers: values, times, places, phrases, check digits."""
