"""Tests on the real engine and cluster of lab/."""
