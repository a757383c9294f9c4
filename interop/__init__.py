"""Bridges to other libraries, one a file, each importing its package only when used."""
