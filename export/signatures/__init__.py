"""Signatures of exported models: a module for each kind of head; `making.make_signatures` takes the right one."""
