"""Tab and Shift-Tab: inside our magics, and inside `%%on` cells with the help of the machine.

Start with `magics`, the matcher that IPython calls. `remote` asks the kernel on a machine, and
`remote_inspect` connects it to the front end's Shift-Tab.
"""
