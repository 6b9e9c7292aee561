"""The conditions of "no leak found": contact and sight, one provider a file."""
