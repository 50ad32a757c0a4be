"""Help for tests, of ours and of anyone who writes a provider. No service imports it."""
