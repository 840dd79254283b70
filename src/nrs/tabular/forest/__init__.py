"""The forest: its members, how they grow, how they are divided and what they say out of bag."""
