"""Write a spec: as YAML that reads back as the same spec, or as a task for SkyPilot.

It may import the other parts of the spec. Start reading at `spec_yaml.py`.
"""
