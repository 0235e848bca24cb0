#!/usr/bin/env python3
"""usage: layers.py DIR
Writes OCI layouts in tars that exercise what layers may do, and beside each, in NAME.expected, the tree that must come of
it: lines "PATH TYPE CONTENT".  The same for the order in which a layer says things."""
import os
import sys

sys.argv[1:] = [sys.argv[1], "/nowhere"]
sys.stdout = open(os.devnull, "w")
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from hostile import BASE, Layout, d, entry, hard, link, out, tar  # noqa: E402


def put(name, layers, expected):
    with open(os.path.join(out, name + ".tar"), "wb") as f:
        f.write(Layout(*[tar(x) for x in layers]).tar())
    base = {"bin": "d", "bin/sh": "f sh", "etc": "d", "etc/passwd": "f root:x:0:0::/:/bin/sh"}
    base.update(expected)
    with open(os.path.join(out, name + ".expected"), "w") as f:
        for path in sorted(x for x in base if base[x]):
            f.write(path + " " + base[path] + "\n")


TREE = [d("v"), entry("v/a", b"a\n"), entry("v/b", b"b\n"), d("v/sub"), entry("v/sub/c", b"c\n")]
ALL = {"v": "d", "v/a": "f a", "v/b": "f b", "v/sub": "d", "v/sub/c": "f c"}


def but(**changes):
    """ALL, with v_sub standing for v/sub; None takes a path away."""
    r = dict(ALL)
    for k, v in changes.items():
        r[k.replace("_", "/")] = v
    return r


put("plain", [BASE, TREE], ALL)
put("whiteout", [BASE, TREE, [entry("v/.wh.a")]], but(v_a=None))
put("whiteout-tree", [BASE, TREE, [entry("v/.wh.sub")]], but(v_sub=None, v_sub_c=None))
put("whiteout-of-nothing", [BASE, TREE, [entry("v/.wh.none")]], ALL)
put("whiteout-then-new", [BASE, TREE, [entry("v/.wh.a"), entry("v/a", b"new\n")]], but(v_a="f new"))
put("new-then-whiteout", [BASE, TREE, [entry("v/a", b"new\n"), entry("v/.wh.a")]], but(v_a="f new"))
put("directory-then-whiteout", [BASE, TREE, [d("v/sub"), entry("v/sub/n", b"n\n"), entry("v/.wh.sub")]],
    but(v_sub_c=None, v_sub_n="f n"))
put("opaque", [BASE, TREE, [entry("v/.wh..wh..opq"), entry("v/n", b"n\n")]],
    but(v_a=None, v_b=None, v_sub=None, v_sub_c=None, v_n="f n"))
put("opaque-last", [BASE, TREE, [entry("v/n", b"n\n"), entry("v/sub/m", b"m\n"), entry("v/.wh..wh..opq")]],
    but(v_a=None, v_b=None, v_sub_c=None, v_sub_m="f m", v_n="f n"))
put("opaque-root", [TREE, [entry(".wh..wh..opq")] + BASE], dict.fromkeys(ALL))
put("directory-over-file", [BASE, TREE, [d("v/a"), entry("v/a/x", b"x\n")]], but(v_a="d", v_a_x="f x"))
put("file-over-directory", [BASE, TREE, [entry("v/sub", b"x\n")]], but(v_sub="f x", v_sub_c=None))
put("link-over-directory", [BASE, TREE, [link("v/sub", "a")]], but(v_sub="l a", v_sub_c=None))
put("directory-over-link", [BASE, TREE + [link("l", "v")], [d("l"), entry("l/x", b"x\n")]],
    dict(ALL, l="d", **{"l/x": "f x"}))
put("hard-link-to-below", [BASE, TREE, [hard("v/h", "v/a")]], but(v_h="f a"))
put("hard-link-with-data", [BASE, TREE, [entry("v/h", kind=b"1", link="v/a")]], but(v_h="f a"))
put("directory-mode", [BASE, TREE, [d("v/sub", 0o700)]], ALL)
put("names", [BASE, TREE, [d("v/ü"), entry("v/ü/new\nline", b"x\n"), entry("v/back\\slash", b"x\n")]],
    dict(ALL, **{"v/ü": "d", "v/ü/new\\nline": "f x", "v/back\\\\slash": "f x"}))
put("old-driver-marks", [BASE, TREE, [d(".wh..wh.plnk"), entry(".wh..wh.plnk/1", b"x"), entry(".wh..wh.aufs")]], ALL)
put("a-hundred-layers", [BASE, TREE] + [[entry("v/n%d" % i, b"n\n")] for i in range(98)],
    dict(ALL, **{"v/n%d" % i: "f n" for i in range(98)}))
