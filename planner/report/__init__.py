"""A plan for people: summary, explanation, picture, and the accuracy of all of them."""
