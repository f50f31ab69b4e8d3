"""What a replay found: one JSON line an event, or a table of what fired and a verdict for each run."""
