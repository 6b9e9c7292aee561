"""What must be shown before "no leak found": contact and sight, one provider a file."""
