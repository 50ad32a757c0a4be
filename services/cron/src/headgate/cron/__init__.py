"""Publishes one event for every slot of a schedule."""
