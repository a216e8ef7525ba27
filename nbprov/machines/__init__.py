"""What a person does with a running cluster: set it up, run cells and jobs, move files, tunnels.

Each sub-package has one of these subjects; `setup/cluster_setup.py` is the first to read. May
import provisioning and everything below it, never api or notebook.
"""
