"""Pure functions from the model's views to static HTML and text.

Start with `formatting` (words for single values) and `tables` (the two kinds of table); `prices`,
`runs` and `clusters` build the displays from them. Modules here may import `model` and `api`,
nothing of IPython and no panel.
"""
