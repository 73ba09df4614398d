"""Jobs on the nodes of a Ray cluster. Ray is imported when a cluster is joined, never before."""
