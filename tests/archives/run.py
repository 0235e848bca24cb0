"""The hostile corpus: what plain tools do with each archive, and what tree-tool does.

    run.py TREE-TOOL SCRATCH

Each archive is extracted three times into a new box of the same contents: by tree-tool, by `tar -xP`, by Python's tarfile.
The control decides whether the archive does harm at all; tree-tool must do none, and say no where it has to.
"""
import hashlib
import os
import shutil
import stat
import subprocess
import sys
import tarfile

import corpus

REASONS = {'archive_refused', 'archive_too_large', 'is_a_directory', 'not_a_directory', 'path_not_found'}
MAX_SIZE = 1 << 36
MAX_DEPTH = 257


def write(path, data):
    with open(path, 'wb') as f:
        f.write(data)


def make_box(box):
    if subprocess.run(['rm', '-rf', box], stderr=subprocess.DEVNULL).returncode != 0:
        # an archive took a normal user's rights away
        subprocess.run(['chmod', '-R', 'u+rwx', box], check=True)
        subprocess.run(['rm', '-rf', box], check=True)
    os.makedirs(box + '/canary/sub')
    os.makedirs(box + '/target/dir')
    write(box + '/canary/secret', b'the secret\n')
    write(box + '/canary/sub/inner', b'inner\n')
    write(box + '/target/existing', b'before\n')
    write(box + '/target/dir/inner', b'before\n')
    os.symlink('../canary', box + '/target/link-out')
    os.symlink('../canary/secret', box + '/target/link-file')
    os.symlink('../canary/new', box + '/target/link-new')
    os.symlink('../..', box + '/target/dir/up')
    os.link(box + '/canary/secret', box + '/target/hard-file')
    os.mkfifo(box + '/target/old-fifo')


def outside(box):
    """All that lies in the box but not in the target: names, what stat says, contents."""
    out = []
    for root in (box, box + '/canary', box + '/canary/sub'):
        if not os.path.isdir(root):
            out.append((root, 'gone'))
            continue
        s = os.lstat(root)
        times = (s.st_mtime_ns,)
        out.append((root, s.st_mode, s.st_uid, s.st_gid) + times)
        for name in sorted(os.listdir(root)):
            path = root + '/' + name
            s = os.lstat(path)
            row = (path, s.st_mode, s.st_uid, s.st_ino if name != 'target' else 0)
            if stat.S_ISREG(s.st_mode):
                with open(path, 'rb') as f:
                    # a name less in the target is no harm: the file there was replaced
                    row += (s.st_nlink if s.st_nlink > 2 else 2, s.st_mtime_ns, hashlib.sha256(f.read()).hexdigest())
            out.append(row if name != 'target' else row[:1])
    return out


def harm_inside(box):
    """What an extraction must not leave in the target itself."""
    target = box + '/target'
    found = set()
    secret = os.lstat(box + '/canary/secret').st_ino if os.path.exists(box + '/canary/secret') else -1
    before = {target + '/hard-file'}
    total = 0
    stack = [(target, 0)]
    while stack:
        path, depth = stack.pop()
        if depth > MAX_DEPTH:
            found.add('deep')
            continue
        try:
            entries = list(os.scandir(path))
        except OSError:
            continue
        for entry in entries:
            s = entry.stat(follow_symlinks=False)
            if stat.S_ISDIR(s.st_mode):
                stack.append((entry.path, depth + 1))
            if not stat.S_ISLNK(s.st_mode) and s.st_mode & 0o6000:
                found.add('set-id')
            if stat.S_ISCHR(s.st_mode) or stat.S_ISBLK(s.st_mode):
                found.add('device')
            if s.st_ino == secret and entry.path not in before:
                found.add('linked')
            if stat.S_ISREG(s.st_mode):
                total += s.st_size
    if total > MAX_SIZE:
        found.add('bomb')
    return found


def harm(box, before):
    found = harm_inside(box)
    if outside(box) != before:
        found.add('outside')
    return found


def by_tar(box, archive, _options):
    subprocess.run(['tar', '-C', box + '/target', '-xPf', archive], stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL, timeout=20)


def by_python(box, archive, _options):
    """In a process of its own: it may hang on a FIFO."""
    pid = os.fork()
    if pid == 0:
        import signal
        signal.alarm(1)
        try:
            os.chdir(box + '/target')
            with tarfile.open(archive, 'r:', errorlevel=0) as t:
                for member in t:
                    try:
                        t.extract(member, box + '/target', **({'filter': 'fully_trusted'} if hasattr(tarfile, 'data_filter') else {}))
                    except Exception:
                        pass
        except BaseException:
            pass
        os._exit(0)
    if os.WIFSIGNALED(os.waitpid(pid, 0)[1]):
        raise subprocess.TimeoutExpired('tarfile', 2)


def by_naive_layers(box, archive, _options):
    """How a program lays a layer that joins paths and believes them."""
    target = box + '/target'
    try:
        with tarfile.open(archive, 'r:') as t:
            for member in t:
                where, name = os.path.split(os.path.join(target, member.name))
                if name == '.wh..wh..opq':
                    for old in os.listdir(where):
                        path = os.path.join(where, old)
                        shutil.rmtree(path) if os.path.isdir(path) and not os.path.islink(path) else os.unlink(path)
                elif name.startswith('.wh.'):
                    path = os.path.join(where, name[4:])
                    if os.path.normpath(path) in (target, box, os.path.dirname(box)):
                        continue  # it would take the scratch directory with it
                    shutil.rmtree(path) if os.path.isdir(path) and not os.path.islink(path) else os.unlink(path)
                else:
                    t.extract(member, target, **({'filter': 'fully_trusted'} if hasattr(tarfile, 'data_filter') else {}))
    except (OSError, tarfile.TarError):
        pass


def control(box, archive, options):
    """Which plain programs do harm, and which."""
    out = []
    programs = [('tar', by_tar), ('python', by_python)]
    if '--whiteouts' in options:
        programs = [('naive', by_naive_layers)]
    for name, program in programs:
        make_box(box)
        before = outside(box)
        try:
            program(box, archive, options)
        except subprocess.TimeoutExpired:
            out.append(name + ':hangs')
            continue
        found = harm(box, before)
        if found:
            out.append(name + ':' + '+'.join(sorted(found)))
    return out


def ours(tool, box, archive, expected, options, piece):
    make_box(box)
    before = outside(box)
    with open(archive, 'rb') as f:
        try:
            r = subprocess.run([tool, 'write', box + '/target'] + options + piece, stdin=f, capture_output=True, timeout=20)
        except subprocess.TimeoutExpired:
            return ['it hangs'], ''
    said = (r.stderr or r.stdout).decode('utf-8', 'backslashreplace').strip()
    reason = said.split(':')[0]
    wrong = sorted(harm(box, before))
    if r.returncode not in (0, 1):
        wrong.append('status %d' % r.returncode)
    if expected == 'refused' and (r.returncode != 1 or reason not in REASONS):
        wrong.append('not refused')
    if expected == 'contained' and r.returncode != 0:
        wrong.append('refused')
    if any(ord(c) < 32 for c in said):
        wrong.append('control bytes in its message')
    for where, _, files in os.walk(box + '/target'):
        wrong += ['temporary file ' + f for f in files if f.startswith('.bailey-')]
    return wrong, said


def main():
    tool, scratch = sys.argv[1:3]
    box = os.path.realpath(scratch) + '/box'
    archive = scratch + '/case.tar'
    passed = failed = harmful = 0
    seen = set()
    for name, data, expected, options in corpus.all_cases(box.encode()):
        assert name not in seen, name
        seen.add(name)
        write(archive, data)
        does = control(box, archive, options)
        harmful += bool(does)
        wrong, said = ours(tool, box, archive, expected, options, [])
        small, _ = ours(tool, box, archive, expected, options, ['--piece', '517'])
        wrong += ['in pieces: ' + w for w in small if w not in wrong]
        if wrong:
            failed += 1
            print('not ok %s %s | %s' % (name, ', '.join(wrong), said))
        else:
            passed += 1
            print('ok %s %s; others: %s' % (name, expected, ' '.join(does) if does else 'no harm'))
    # a corpus that hurts nobody proves nothing
    need = 60 if os.getuid() == 0 else 50
    for what, good in (('at-least-60-archives', len(seen) >= 60), ('the-control-does-harm %d of %d' % (harmful, len(seen)), harmful >= need)):
        print(('ok ' if good else 'not ok ') + what)
        passed, failed = passed + good, failed + (not good)
    print('%d passed, %d failed, 0 skipped' % (passed, failed))
    return failed > 0


if __name__ == '__main__':
    sys.exit(main())
