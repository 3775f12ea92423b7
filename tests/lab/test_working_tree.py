"""No engine, stack or test has written to the checkout. The file's name puts it last."""

from tests.lab.conftest import state_of_checkout


def test_the_working_tree_is_as_it_was_before_the_first_test(checkout_before: str) -> None:
    assert state_of_checkout() == checkout_before
