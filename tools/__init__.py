"""Programs that trained the policies behind the datasets by name; not part of the package."""
