"""Every test that runs generated code must give back each tensor handle that it was given."""

from support.leaks import no_handle_leaks  # noqa: F401 - a fixture for every test here
