"""What every kind of step has, and what it asks about a plan."""
