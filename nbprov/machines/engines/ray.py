"""Ray on a cluster."""
