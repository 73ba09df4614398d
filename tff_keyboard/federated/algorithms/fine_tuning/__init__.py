"""Fine-tuning on users without forgetting the general language (Popov et al. 2018)."""
