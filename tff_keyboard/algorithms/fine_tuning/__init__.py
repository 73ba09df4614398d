"""Fine-tuning on clients without forgetting the general language (Popov et al. 2018)."""
