"""Where work is computed: rounds in parts, on workers or nodes, merged in a fixed order."""
