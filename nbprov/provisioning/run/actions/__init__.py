"""What a run asks its clouds to do for an attempt; each action ends by posting an event.

`create.py` sends creates, `machine_startup.py` brings machines up, `unknown_outcome.py` resolves
lost answers, and `termination.py` ends machines. All send their calls through
`launch_requests.py`. They take a `RunContext` and never import the driver.
"""
