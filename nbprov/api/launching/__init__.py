"""How launches begin, are replaced and end: functions over the context and the services.

`provision_service.py` is the place to start reading: it leads from a spec to a run, or to a cluster
that is there already. Modules here may import `nbprov.api.services`, the cluster and the run.
"""
