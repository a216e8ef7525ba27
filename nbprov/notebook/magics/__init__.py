"""The magics `%%provision`, `%%on`, `%prices`, `%clusters` and `%nbprov`.

`magics` registers them with IPython, `parsers` reads their lines, and each of the other modules
does the work of one of them or a part of it. Modules here may import `panels`, `rendering` and
`api`; `%nbprov` passes its line on to `commands`.
"""
