"""The commands of `%nbprov`: one module each, or one for a few that belong together.

`registry` holds the table of all commands and imports a command's module when it is first used.
Each module has a function that adds arguments to a parser and one that runs the command. Modules
here may import `magics`, `panels`, `rendering` and `api`.
"""
