"""The headgate command."""
