"""Starts one run per decision in the user's workflow engine."""
