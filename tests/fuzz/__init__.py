"""Programs that try at random, for as long as they are told, what no list of tests would."""
