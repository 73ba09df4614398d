"""Jobs on the nodes of a Ray cluster. Ray is imported only when a cluster is joined."""
