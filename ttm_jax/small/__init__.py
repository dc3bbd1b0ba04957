"""The embedded default: small models that ship with the package, and how they were made."""
