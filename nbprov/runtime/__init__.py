"""The engine thread and its loop, worker threads a cloud, clocks, waiting and the coalescing publisher."""
