"""Launcher adapters of libraries, one file each."""
