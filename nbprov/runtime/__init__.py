"""The engine thread, worker pools, clocks, interruptible waiting and the publisher.

It may import the model alone. Start reading at `engine_thread.py`: every task of nbprov runs on its
loop, and blocking calls run in `worker_pool.py`.
"""
