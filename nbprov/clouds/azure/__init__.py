"""Microsoft Azure virtual machines."""
