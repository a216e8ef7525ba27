"""Read the fields of a cell: from nodes to the values of a `Spec`, with all problems recorded.

It may import `spec.schema`, `spec.yaml` and `spec.interpolation`. Start reading at
`field_reader.py`, which all readers use; `resources/` reads the largest field.
"""
