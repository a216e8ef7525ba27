"""Frames for outputs of machines that need a program to be drawn.

Start reading in `frame_renderer.py`. The browser's half is in `widgets/frame_*.js`.
"""
