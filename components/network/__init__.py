"""NetworkPolicies: what they allow, and whether the cluster enforces them."""
