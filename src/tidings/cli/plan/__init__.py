"""Plans: made, shown, checked and tried."""
