"""What a person is shown, who may approve what, and whether an approval holds."""
