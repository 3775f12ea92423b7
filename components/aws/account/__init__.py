"""The check of the AWS account before anything is created: what is read of it, and what is wrong with it."""
