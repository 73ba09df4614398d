"""Studies: several trainings from one TOML file, and the tables and pictures made of their runs."""
