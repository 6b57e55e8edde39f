"""What only a real API server can show of an operator."""
