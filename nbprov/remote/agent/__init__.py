"""The agent: one file that is copied to a machine and runs there, and its client here."""
