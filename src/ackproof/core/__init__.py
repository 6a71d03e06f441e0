"""What every part needs, and what needs no other part: errors, safe text, safe files."""
