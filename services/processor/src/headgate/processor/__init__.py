"""Drops repeats and decides which trigger wants which event."""
