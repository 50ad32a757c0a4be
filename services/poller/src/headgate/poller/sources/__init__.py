"""The providers: every module here is one, and nothing else lists them."""
