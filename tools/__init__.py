"""Tools of this repository, not of its users."""
