"""moto's servers with the calls and the refusals that moto lacks. State is in memory and ends with the process."""
