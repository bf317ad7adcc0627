"""Everything that runs: configuration, the flow, the stores, upkeep and the command line."""
