"""What every Headgate service shares. Imported, never run."""
