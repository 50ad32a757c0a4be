"""`headgate dev` and `headgate demo`: the whole of Headgate on one machine."""
