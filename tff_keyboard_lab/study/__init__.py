"""Studies: several trainings from one TOML file, with tables and pictures of their runs."""
