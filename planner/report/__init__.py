"""Reports for people: summary, explanation, picture, accuracy."""
