"""Client data: from people's text to the batches one client trains on."""
