"""FedMed as a learning process, with client work that scores its own update."""
