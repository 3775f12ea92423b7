"""What each engine does with a model on given GPUs: memory, rules, arguments, process. No Pulumi in here."""
