"""Verified webhooks become raw events; 202 only after the broker's ack."""
