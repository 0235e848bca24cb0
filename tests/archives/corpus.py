"""The hostile archives, built block by block: each is (name, bytes, what must happen, options of tree-tool).

What must happen: 'refused' (status 1, and the reason is one of an archive's or of a path), or 'contained' (status 0).  In both
cases nothing outside the target changes.  The target is <box>/target, the canary <box>/canary; see run.py for what is in them.
"""

BLOCK = 512
HOSTILE = b'#!/bin/sh\necho hostile\n'


def octal(n, width):
    return b'%0*o\0' % (width - 1, n)


def base256(n, width):
    return bytes([0x80 if n >= 0 else 0xff]) + (n % (1 << 8 * (width - 1))).to_bytes(width - 1, 'big')


def header(name, kind=b'0', size=0, link=b'', mode=0o644, uid=0, gid=0, prefix=b'', mtime=1, dev=(0, 0),
           magic=b'ustar\00000', raw_size=None, raw_uid=None, raw_sum=None, raw_mtime=None, tail=None):
    b = bytearray(BLOCK)

    def put(at, data, width):
        b[at:at + min(len(data), width)] = data[:width]

    put(0, name, 100)
    put(100, octal(mode, 8), 8)
    put(108, octal(uid, 8) if raw_uid is None else raw_uid, 8)
    put(116, octal(gid, 8), 8)
    put(124, octal(size, 12) if raw_size is None else raw_size, 12)
    put(136, octal(mtime, 12) if raw_mtime is None else raw_mtime, 12)
    put(156, kind, 1)
    put(157, link, 100)
    put(257, magic, 8)
    put(329, octal(dev[0], 8), 8)
    put(337, octal(dev[1], 8), 8)
    put(345, prefix, 155)
    if tail:
        b[345:345 + len(tail)] = tail
    b[148:156] = b' ' * 8
    b[148:156] = b'%06o\0 ' % sum(b) if raw_sum is None else raw_sum
    return bytes(b)


def pad(data):
    return data + bytes(-len(data) % BLOCK)


def file(name, data=HOSTILE, **k):
    return header(name, size=len(data), **k) + pad(data)


def directory(name, mode=0o755, **k):
    return header(name, b'5', mode=mode, **k)


def symlink(name, to, **k):
    return header(name, b'2', link=to, mode=0o777, **k)


def hardlink(name, to, **k):
    return header(name, b'1', link=to, **k)


def record(key, value):
    body = b' ' + key + b'=' + value + b'\n'
    n = len(body) + 1
    while len(str(n)) + len(body) != n:
        n = len(str(n)) + len(body)
    return str(n).encode() + body


def pax(records, kind=b'x'):
    if isinstance(records, dict):
        records = b''.join(record(k, v) for k, v in records.items())
    return header(b'PaxHeaders/x', kind, size=len(records)) + pad(records)


def gnu_long(text, kind=b'L'):
    return header(b'././@LongLink', kind, size=len(text), magic=b'ustar  \0') + pad(text)


END = bytes(2 * BLOCK)


def sparse10(name, real, text, data, mode=0o644):
    body = pad(text) + data
    return (pax({b'GNU.sparse.major': b'1', b'GNU.sparse.minor': b'0', b'GNU.sparse.name': name,
                 b'GNU.sparse.realsize': str(real).encode()}) +
            header(b'GNUSparseFile.0/x', size=len(body), mode=mode) + pad(body))


def old_sparse(name, real, pieces, data, more=False):
    tail = bytearray(512 - 345 - 12)
    for i, (offset, size) in enumerate(pieces):
        at = 386 - 345 + 24 * i
        tail[at:at + 12] = octal(offset, 12)
        tail[at + 12:at + 24] = octal(size, 12)
    tail[482 - 345] = 1 if more else 0
    tail[483 - 345:483 - 345 + 12] = octal(real, 12) if real < 8 ** 11 else base256(real, 12)
    return header(name, b'S', size=len(data), magic=b'ustar  \0', tail=bytes(tail)) + pad(data)


def names(box):
    canary = box + b'/canary'
    yield 'absolute', file(canary + b'/secret'), 'refused'
    yield 'absolute-new', file(canary + b'/new'), 'refused'
    yield 'absolute-dir', directory(canary + b'/newdir', 0o777), 'refused'
    yield 'absolute-double-slash', file(b'/' + canary + b'/secret'), 'refused'
    yield 'absolute-pax', pax({b'path': canary + b'/secret'}) + file(b'fine'), 'refused'
    yield 'absolute-gnu', gnu_long(canary + b'/secret\0') + file(b'fine', magic=b'ustar  \0'), 'refused'
    yield 'absolute-prefix', file(b'secret', prefix=canary), 'refused'
    yield 'absolute-symlink-name', symlink(canary + b'/planted', b'/etc'), 'refused'
    yield 'dotdot', file(b'../canary/secret'), 'refused'
    yield 'dotdot-new', file(b'../canary/new'), 'refused'
    yield 'dotdot-middle', file(b'dir/../../canary/secret'), 'refused'
    yield 'dotdot-inside', file(b'dir/../existing'), 'refused'
    yield 'dotdot-dir', directory(b'..', 0o711), 'refused'
    yield 'dotdot-trailing', directory(b'../canary/sub/..', 0o700), 'refused'
    yield 'dotdot-dot', file(b'./.././canary//secret'), 'refused'
    yield 'dotdot-pax', pax({b'path': b'../canary/secret'}) + file(b'fine'), 'refused'
    yield 'dotdot-gnu', gnu_long(b'../canary/secret\0') + file(b'fine', magic=b'ustar  \0'), 'refused'
    yield 'dotdot-prefix', file(b'canary/secret', prefix=b'..'), 'refused'
    yield 'dotdot-symlink-name', symlink(b'../canary/planted', b'x'), 'refused'
    yield 'dotdot-backslash', file(b'..\\canary\\secret'), 'contained'
    yield 'name-empty', file(b''), 'refused'
    yield 'name-empty-pax', pax({b'path': b''}) + file(b'fine'), 'refused'
    yield 'name-dot-file', file(b'.'), 'refused'
    yield 'name-dot-dir', directory(b'./', 0), 'contained'
    yield 'name-slash', directory(b'/', 0o711), 'refused'
    yield 'name-nul-pax', pax({b'path': b'fine\0/../../canary/secret'}) + file(b'fine'), 'refused'
    yield 'name-nul-ustar', file(b'fine\0/../../canary/secret'), 'contained'
    yield 'name-newline', file(b'a\nok forged\n'), 'contained'
    yield 'name-escape', file(b'\x1b]0;title\x07\x1b[2J'), 'contained'
    yield 'name-escape-refused', file(b'\x1b[2J/../x'), 'refused'
    yield 'name-not-utf8', file(b'\xff\xfe\x80'), 'contained'
    yield 'name-trailing-slash', header(b'existing/', b'0'), 'refused'
    yield 'name-dash', file(b'--checkpoint-action=exec=sh'), 'contained'
    yield 'name-part-256', pax({b'path': b'n' * 256}) + file(b'fine'), 'refused'
    yield 'name-4096', pax({b'path': b'/'.join([b'n' * 200] * 21)}) + file(b'fine'), 'refused'
    yield 'name-1mib', pax({b'path': b'n/' * (1 << 19)}) + file(b'fine'), 'refused'
    yield 'name-4096-gnu', gnu_long(b'd/' * 2100 + b'\0') + file(b'fine'), 'refused'
    yield 'deep-name', pax({b'path': b'd/' * 1900 + b'f'}) + file(b'fine'), 'refused'
    yield 'deep-entries', b''.join(pax({b'path': b'd/' * n}) + directory(b'x') for n in range(1, 300)), 'refused'


def links(box):
    canary = box + b'/canary'
    yield 'link-absolute', symlink(b'l', canary) + file(b'l/secret'), 'refused'
    yield 'link-relative', symlink(b'l', b'../canary') + file(b'l/secret'), 'refused'
    yield 'link-new-file', symlink(b'l', b'../canary') + file(b'l/new'), 'refused'
    yield 'link-new-dir', symlink(b'l', b'../canary') + directory(b'l/newdir'), 'refused'
    yield 'link-new-link', symlink(b'l', b'../canary') + symlink(b'l/planted', b'/etc'), 'refused'
    yield 'link-to-file', symlink(b'l', b'../canary/secret') + file(b'l'), 'contained'
    yield 'link-dangling', symlink(b'l', b'../canary/new') + file(b'l'), 'contained'
    yield 'link-chain', symlink(b'a', b'b') + symlink(b'b', b'../canary') + file(b'a/secret'), 'refused'
    yield 'link-up', symlink(b'a', b'.') + symlink(b'a/b', b'..') + file(b'b/canary/secret'), 'refused'
    yield 'link-deep', directory(b'd') + symlink(b'd/l', b'../../canary') + file(b'd/l/sub/inner'), 'refused'
    yield 'link-pax', pax({b'linkpath': b'../canary'}) + symlink(b'l', b'dir') + file(b'l/secret'), 'refused'
    yield 'link-gnu', gnu_long(canary + b'\0', b'K') + symlink(b'l', b'dir') + file(b'l/secret'), 'refused'
    yield 'link-dir-mode', symlink(b'l', b'../canary') + directory(b'l', 0o777), 'refused'
    yield 'link-dir-mode-slash', symlink(b'l', b'../canary') + directory(b'l/', 0o777), 'refused'
    yield 'link-replaces-dir', directory(b'd') + symlink(b'd', b'../canary') + file(b'd/secret'), 'refused'
    yield ('link-replaces-dir-allowed', directory(b'd') + symlink(b'd', b'../canary') + file(b'd/secret'),
           'contained', '--replace')
    yield 'link-loop', symlink(b'a', b'b') + symlink(b'b', b'a') + file(b'a/x'), 'refused'
    yield 'link-self', symlink(b'a', b'a') + file(b'a/x'), 'refused'
    yield 'link-only', symlink(b'l', canary + b'/secret'), 'contained'
    yield 'link-empty', symlink(b'l', b''), 'refused'
    yield 'link-4096', pax({b'linkpath': b'x' * 4096}) + symlink(b'l', b'x'), 'refused'
    yield 'link-proc', symlink(b'l', b'/proc/self/cwd') + file(b'l/../canary/new'), 'refused'
    yield 'planted-dir', file(b'link-out/secret'), 'refused'
    yield 'planted-dir-new', file(b'link-out/new'), 'refused'
    yield 'planted-dir-mode', directory(b'link-out', 0o777), 'refused'
    yield 'planted-file', file(b'link-file'), 'contained'
    yield 'planted-dangling', file(b'link-new'), 'contained'
    yield 'planted-hard', file(b'hard-file'), 'contained'
    yield 'planted-deep', file(b'dir/up/canary/secret'), 'refused'
    yield 'hard-absolute', hardlink(b'h', canary + b'/secret'), 'refused'
    yield 'hard-relative', hardlink(b'h', b'../canary/secret'), 'refused'
    yield 'hard-write', hardlink(b'h', canary + b'/secret') + file(b'h'), 'refused'
    yield 'hard-mode', hardlink(b'h', b'../canary/secret', mode=0o4777), 'refused'
    yield 'hard-through-link', symlink(b'l', b'../canary') + hardlink(b'h', b'l/secret'), 'refused'
    yield 'hard-planted-dir', hardlink(b'h', b'link-out/secret'), 'refused'
    yield 'hard-planted-file', hardlink(b'h', b'link-file') + file(b'h'), 'refused'
    yield ('hard-to-link', symlink(b's', b'../canary/secret') + hardlink(b'h', b's') + file(b'h'), 'contained')
    yield 'hard-to-existing', hardlink(b'h', b'existing') + file(b'h'), 'refused'
    yield 'hard-to-planted-hard', hardlink(b'h', b'hard-file'), 'refused'
    yield 'hard-pax', pax({b'linkpath': b'../canary/secret'}) + hardlink(b'h', b'existing') + file(b'h'), 'refused'
    yield 'hard-gnu', gnu_long(canary + b'/secret\0', b'K') + hardlink(b'h', b'x') + file(b'h'), 'refused'
    yield 'hard-self', hardlink(b'h', b'h'), 'refused'
    yield 'hard-before', hardlink(b'h', b'later') + file(b'later'), 'refused'
    yield 'hard-dir', directory(b'd') + hardlink(b'h', b'd'), 'refused'
    yield 'hard-root', hardlink(b'h', b'.'), 'refused'
    yield 'hard-size', header(b'h', b'1', link=b'existing', size=1024) + file(b'../canary/secret'), 'refused'


def kinds(box):
    yield 'device-null', header(b'dev', b'3', dev=(1, 3), mode=0o666), 'contained'
    yield 'device-mem', header(b'dev', b'3', dev=(1, 1), mode=0o666), 'contained'
    yield 'device-disk', header(b'dev', b'4', dev=(8, 0), mode=0o666), 'contained'
    yield 'device-write', header(b'dev', b'3', dev=(1, 3), mode=0o666) + file(b'dev'), 'contained'
    yield 'fifo', header(b'pipe', b'6', mode=0o666), 'contained'
    yield 'fifo-write', header(b'pipe', b'6', mode=0o666) + file(b'pipe'), 'contained'
    yield 'fifo-planted', file(b'old-fifo'), 'contained'
    yield 'setuid', file(b'su', mode=0o4755), 'contained'
    yield 'setgid', file(b'sg', mode=0o2755), 'contained'
    yield 'setuid-all', file(b'su', mode=0o7777), 'contained'
    yield 'setgid-dir', directory(b'sd', 0o2777), 'contained'
    yield 'setuid-dir', directory(b'sd', 0o6777), 'contained'
    yield 'setuid-hard', file(b'su', mode=0o755) + hardlink(b'h', b'su', mode=0o4755), 'contained'
    yield 'setuid-replaces', file(b'existing', mode=0o4755), 'contained'
    yield 'setuid-sparse', sparse10(b'su', 5, b'1\n0\n5\n', b'12345', mode=0o4755), 'contained'
    yield 'capability', pax({b'SCHILY.xattr.security.capability': b'\1\0\0\2\xff' + bytes(15)}) + file(b'cap'), 'contained'
    yield 'type-unknown', header(b'z', b'Z'), 'refused'
    yield 'type-multivolume', header(b'm', b'M', size=10) + pad(b'x' * 10), 'refused'
    yield 'type-dumpdir', header(b'd', b'D', size=10) + pad(b'Nx\0\0'), 'refused'
    yield 'type-volume', header(box + b'/canary/new', b'V') + file(b'fine'), 'contained'
    yield 'dir-size', directory(b'd', size=1024) + file(b'../canary/secret') + file(b'x'), 'refused'
    yield 'file-then-dir', file(b'x') + directory(b'x'), 'refused'
    yield 'dir-then-file', directory(b'x') + file(b'x'), 'refused'
    yield 'file-under-file', file(b'x') + file(b'x/y'), 'refused'
    yield 'file-over-dir', file(b'dir'), 'refused'
    yield 'file-over-dir-allowed', file(b'dir'), 'contained', '--replace'
    yield 'duplicate', file(b'x', b'1') + file(b'x', b'2'), 'contained'
    yield 'duplicate-link', symlink(b'x', b'../canary/secret') + symlink(b'x', b'y') + file(b'x'), 'contained'


def sizes(box):
    inner = file(b'../canary/secret')
    yield 'size-huge', header(b'big', raw_size=base256(1 << 61, 12)), 'refused'
    yield 'size-max', header(b'big', raw_size=b'\x80' + b'\xff' * 11), 'refused'
    yield 'size-octal-max', header(b'big', raw_size=b'7' * 11 + b'\0'), 'refused'
    yield 'size-negative', header(b'big', raw_size=base256(-512, 12)), 'refused'
    yield 'size-minus', header(b'big', raw_size=b'-0000000512\0'), 'refused'
    yield 'size-garbage', header(b'big', raw_size=b'00000zz\0'), 'refused'
    yield 'size-pax-negative', pax({b'size': b'-1'}) + file(b'x'), 'refused'
    yield 'size-pax-overflow', pax({b'size': b'18446744073709551616'}) + file(b'x'), 'refused'
    yield 'size-pax-hides', pax({b'size': b'1024'}) + header(b'x') + inner, 'contained'
    yield 'size-pax-shows', pax({b'size': b'0'}) + header(b'x', size=1024) + inner, 'refused'
    yield 'size-limit', header(b'big', raw_size=base256(1 << 41, 12)), 'refused'
    yield 'bytes-limit', b''.join(file(b'f%d' % i, bytes(60000)) for i in range(40)), 'refused', '--max-bytes', '1000000'
    yield 'entries-limit', b''.join(file(b'f%d' % i, b'') for i in range(400)), 'refused', '--max-entries', '200'
    yield 'dirs-limit', b''.join(file(b'd%d/' % i + b'e/' * 50 + b'f', b'') for i in range(20)), 'refused', '--max-entries', '200'
    yield 'sparse-bomb', sparse10(b'bomb', 1 << 60, b'1\n0\n5\n', b'12345'), 'refused'
    yield 'sparse-bomb-many', b''.join(sparse10(b'b%d' % i, 1 << 42, b'1\n0\n5\n', b'12345') for i in range(3)), 'refused'
    yield 'sparse-bomb-old', old_sparse(b'bomb', 1 << 60, [(0, 5)], b'12345'), 'refused'
    yield 'sparse-overlap', sparse10(b's', 1000, b'2\n0\n5\n3\n5\n', b'1234567890'), 'refused'
    yield 'sparse-backwards', sparse10(b's', 1000, b'2\n500\n5\n0\n5\n', b'1234567890'), 'refused'
    yield 'sparse-outside', sparse10(b's', 10, b'1\n8\n5\n', b'12345'), 'refused'
    yield 'sparse-overflow', sparse10(b's', 10, b'1\n18446744073709551611\n5\n', b'12345'), 'refused'
    yield 'sparse-count', sparse10(b's', 10, b'99999999\n', b''), 'refused'
    yield 'sparse-text', sparse10(b's', 10, b'1\nx\n5\n', b'12345'), 'refused'
    yield 'sparse-long-text', sparse10(b's', 10, b'1' * 2000, b''), 'refused'
    yield 'sparse-short', sparse10(b's', 10, b'1\n0\n5\n', b'12'), 'refused'
    yield 'sparse-name', sparse10(b'../canary/secret', 5, b'1\n0\n5\n', b'12345'), 'refused'
    yield 'sparse-0.1', pax({b'GNU.sparse.map': b'0,5', b'GNU.sparse.size': b'5'}) + file(b's', b'12345'), 'refused'
    yield 'sparse-old-endless', old_sparse(b's', 100, [(0, 5)], b'', True) + (bytes(504) + b'\1' + bytes(7)) * 400, 'refused'


def headers(box):
    good = file(b'one', b'1' * 600) + directory(b'two') + pax({b'path': b'three'}) + file(b'x', b'3')
    for at in range(0, len(good) + 1, BLOCK):
        yield 'truncated-%05d' % at, good[:at], 'refused', '', 'raw'
    yield 'truncated-inside', good[:700], 'refused', '', 'raw'
    yield 'no-tar-text', b'hello\n' * 300, 'refused', '', 'raw'
    yield 'no-tar-gzip', b'\x1f\x8b\x08' + b'\0' * 2000, 'refused', '', 'raw'
    yield 'no-tar-zero-then', bytes(BLOCK) + file(b'../canary/secret') + END, 'refused', '', 'raw'
    yield 'behind-the-end', file(b'fine') + END + file(b'../canary/secret') + END, 'contained', '', 'raw'
    yield 'sum-wrong', file(b'fine') + file(b'x', raw_sum=b'000001\0 '), 'refused'
    yield 'sum-blank', file(b'fine') + file(b'x', raw_sum=b' ' * 8), 'refused'
    yield 'sum-base256', file(b'fine') + file(b'x', raw_sum=base256(4000, 8)), 'refused'
    yield 'pax-length-long', pax(b'99 path=x\n') + file(b'fine'), 'refused'
    yield 'pax-length-short', pax(b'7 path=../canary/secret\n') + file(b'fine'), 'refused'
    yield 'pax-length-zero', pax(b'0 path=x\n') + file(b'fine'), 'refused'
    yield 'pax-length-huge', pax(b'4294967305 path=x\n') + file(b'fine'), 'refused'
    yield 'pax-no-equals', pax(b'9 path:x\n') + file(b'fine'), 'refused'
    yield 'pax-no-newline', pax(b'9 path=x ') + file(b'fine'), 'refused'
    yield 'pax-global-path', pax({b'path': b'../canary/secret'}, b'g') + file(b'fine'), 'refused'
    yield 'pax-global-linkpath', pax({b'linkpath': b'../canary'}, b'g') + symlink(b'l', b'dir') + file(b'l/secret'), 'refused'
    yield 'pax-global-size', pax({b'size': b'0'}, b'g') + file(b'../canary/secret'), 'refused'
    yield 'pax-large', pax({b'comment': b'x' * (2 << 20)}) + file(b'fine'), 'refused'
    yield 'pax-many', b''.join(pax({b'comment': b'x'}, b'g') for _ in range(100)) + file(b'fine'), 'refused'
    yield 'pax-twice', pax({b'path': b'a'}) + pax({b'path': b'b'}) + file(b'fine'), 'refused'
    yield 'pax-and-gnu', gnu_long(b'a\0') + pax({b'path': b'b'}) + file(b'fine'), 'refused'
    yield 'pax-last-counts', pax(record(b'path', b'fine') + record(b'path', b'../canary/secret')) + file(b'x'), 'refused'
    yield 'pax-uid', pax({b'uid': b'4294967295'}) + file(b'fine'), 'refused'
    yield 'pax-mtime', pax({b'mtime': b'1e99'}) + file(b'fine'), 'refused'
    yield 'pax-mtime-far', pax({b'mtime': b'99999999999999'}) + file(b'fine'), 'contained'
    yield 'pax-dangling', file(b'fine') + pax({b'path': b'x'}), 'refused'
    yield 'uid-negative', file(b'fine', raw_uid=base256(-1, 8)), 'refused'
    yield 'mtime-negative', file(b'fine', raw_mtime=base256(-(1 << 62), 12)), 'refused'
    yield 'gnu-long-huge', header(b'././@LongLink', b'L', raw_size=base256(1 << 40, 12)), 'refused'
    yield 'gnu-long-nul', gnu_long(b'a\0/../../canary/secret\0') + file(b'fine'), 'refused'
    yield 'gnu-long-empty', gnu_long(b'') + file(b'fine'), 'refused'
    yield 'gnu-long-twice', gnu_long(b'a\0') + gnu_long(b'b\0') + file(b'fine'), 'refused'
    yield 'gnu-long-dangling', file(b'fine') + gnu_long(b'../canary/secret\0'), 'refused'


def whiteouts(box):
    w = '--whiteouts'
    yield 'whiteout-dotdot', file(b'dir/.wh...', b''), 'refused', w
    yield 'whiteout-dot', file(b'dir/.wh..', b''), 'refused', w
    yield 'whiteout-nothing', file(b'dir/.wh.', b''), 'refused', w
    yield 'whiteout-outside', file(b'../canary/.wh.secret', b''), 'refused', w
    yield 'whiteout-absolute', file(box + b'/canary/.wh.secret', b''), 'refused', w
    yield 'whiteout-planted-dir', file(b'link-out/.wh.secret', b''), 'contained', w
    yield 'whiteout-planted-opaque', file(b'link-out/.wh..wh..opq', b''), 'contained', w
    yield 'whiteout-link-opaque', symlink(b'l', b'../canary') + file(b'l/.wh..wh..opq', b''), 'contained', w
    yield 'whiteout-planted-link', file(b'.wh.link-out', b''), 'contained', w
    yield 'whiteout-tree', file(b'.wh.dir', b''), 'contained', w
    yield 'whiteout-root', file(b'.wh..wh..opq', b''), 'contained', w
    yield 'whiteout-is-dir', file(b'.wh.x/y', b''), 'refused', w
    yield 'whiteout-is-link', symlink(b'.wh.existing', b'x'), 'refused', w
    yield 'whiteout-aufs', file(b'.wh..wh.plnk', b''), 'contained', w
    yield 'whiteout-literal', file(b'.wh.existing'), 'contained'


def all_cases(box):
    """Yields (name, bytes, expected, options)."""
    for family in (names, links, kinds, sizes, headers, whiteouts):
        for name, data, expected, *options in family(box):
            raw = 'raw' in options
            yield name, data if raw else data + END, expected, [o for o in options if o and o != 'raw']
