"""What connects the loop to the other services and to the record."""
