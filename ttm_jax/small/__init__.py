"""The small models that ship with the package, and the code that trains them."""
