"""The pods of the Jobs that stage and prune weights."""
