"""What is counted: the table of all metrics, and the count behind each."""
