"""Verified ssh connections by asyncssh: keys, login, commands, channels, port forwards, copies.

It may import the model and `on_machine`, and `sync/gitignore.py`. Start reading at
`connection.py`.
"""
