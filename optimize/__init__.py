"""Compiling a program against a train split."""
