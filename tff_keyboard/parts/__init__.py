"""The parts that a config chooses by `type`: their options, their registries, and their reader."""
