"""The agent: the daemon that runs one machine's kernels, jobs and shells, and its guards."""
