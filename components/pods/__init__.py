"""The pods that the components create, as plain values."""
