"""What a run may cost: what Launch agrees to (`consent.py`), and the price asked for again just
before a machine is bought (`requote.py`). Pure functions over the model.
"""
