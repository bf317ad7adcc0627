"""Deliveries: webhooks go to the HTTP servers of those who follow parcels."""
