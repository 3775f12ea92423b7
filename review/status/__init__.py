"""`python -m review status`: what a deployed stack does now, by the cluster and by its servers' own metrics."""
