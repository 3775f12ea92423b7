"""Sizes and bandwidths, against what Kubernetes and arithmetic say of them."""

import pytest

from config.bandwidth import bytes_per_second
from config.quantity import canonical, gigabytes, quantity_bytes, whole_gibibytes


@pytest.mark.parametrize(
    ("quantity", "size"),
    [
        ("0", 0),
        ("1000", 1000),
        ("1k", 1000),
        ("400Gi", 429_496_729_600),
        ("1.5Ti", 1_649_267_441_664),
        ("2T", 2 * 10**12),
        ("9007199254740993", 2**53 + 1),
    ],
)
def test_a_quantity_is_read_as_kubernetes_reads_it(quantity: str, size: int) -> None:
    assert quantity_bytes(quantity) == size


@pytest.mark.parametrize("text", ["", "Gi", "-1Gi", "1e3", "500m", "1 Gi", "1GiB", "400GB"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="400Gi"):
        quantity_bytes(text)


def test_a_size_is_rounded_up_to_whole_gibibytes() -> None:
    assert whole_gibibytes(2**30) == "1Gi"
    assert whole_gibibytes(2**30 + 1) == "2Gi"


def test_a_checkpoint_is_printed_in_the_unit_it_is_sold_in() -> None:
    assert gigabytes(595_147_639_776) == "595.1 GB"


@pytest.mark.parametrize(
    ("text", "expected"), [("10 Gbit/s", 1.25e9), ("10Gbit/s", 1.25e9), ("250 MB/s", 250e6), ("1.5 GB/s", 1.5e9)]
)
def test_a_bandwidth_is_read_in_bytes_per_second(text: str, expected: float) -> None:
    assert bytes_per_second(text) == expected


@pytest.mark.parametrize("text", ["", "10", "10 Gbps", "0 MB/s", "fast", "10 gbit/s", "-1 GB/s"])
def test_what_is_no_bandwidth_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="10 Gbit/s"):
        bytes_per_second(text)


@pytest.mark.parametrize(
    ("written", "stored"),
    [
        # The examples in the documentation of Kubernetes' Quantity, and of its test of canonical forms.
        ("1.5", "1500m"),
        ("1.5Gi", "1536Mi"),
        ("1024Mi", "1Gi"),
        ("5120Mi", "5Gi"),
        ("2048Gi", "2Ti"),
        ("1000m", "1"),
        ("100m", "100m"),
        ("1000M", "1G"),
        ("1500M", "1500M"),
        ("0.5Ki", "512"),
        ("256Gi", "256Gi"),
        ("32", "32"),
        ("2000", "2k"),
        ("0", "0"),
        ("1e3", "1e3"),
    ],
)
def test_a_quantity_is_written_as_kubernetes_stores_it(written: str, stored: str) -> None:
    assert canonical(written) == stored
