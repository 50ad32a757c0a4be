"""Polls outside systems; a cursor never runs ahead of what is stored."""
