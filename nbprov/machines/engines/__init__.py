"""Dask and Ray on a cluster's machines: started there, kept up, and reached from the notebook."""
