"""The live panels: the price table, the run panel, the clusters table and the dashboard.

`panel.Panel` is the base of all of them and `live_display.LiveDisplay` shows one in a cell; start
reading there. The static HTML and text come from `rendering`, the browser's code from `widgets/`.
Modules here may import `rendering` and `api`, and only `widget` imports ipywidgets.
"""
