# SPDX-License-Identifier: GPL-2.0-or-later
"""Folders in the cache that take long to make, for tests to read.

Each is made once, and its name is the hash of all that made it: of contents,
not of names and dates, so that no change of a program or of a guest is hidden.
"""

import fcntl
import functools
import hashlib
import os
import re
import shutil

import qemu

# What scripts make there has the hash of what it is made of in its path.
BY_HASH = ('out', 'guest')


def content(path):
    """What a file has, in a few words"""
    top = os.path.realpath(qemu.cache())
    real = os.path.realpath(path)
    if any(real.startswith(os.path.join(top, name) + '/') for name in BY_HASH):
        return real[len(top):]
    stat = os.stat(real)
    return _digest(real, stat.st_ino, stat.st_mtime_ns, stat.st_ctime_ns)


@functools.lru_cache
def _digest(path, *_):
    with open(path, 'rb') as f:
        return hashlib.file_digest(f, 'sha256').hexdigest()


def described(args):
    """Arguments of a program, with the contents of the files that they name"""
    return [re.sub(r'/[^,=:]+', lambda m: content(m[0])
                   if os.path.isfile(m[0]) else m[0], arg) for arg in args]


def folder(kind, most, inputs, make):
    """The folder that is made of inputs, a list of strings.

    make(folder) fills it if it is not there.  Of each kind, those are kept that
    were used last, at most this many.
    """
    key = hashlib.sha256('\0'.join([kind, *inputs]).encode()).hexdigest()[:16]
    top = os.path.join(qemu.cache(), kind)
    path = os.path.join(top, key)
    locks = os.path.join(qemu.cache(), 'lock')
    os.makedirs(top, exist_ok=True)
    os.makedirs(locks, exist_ok=True)
    with open(os.path.join(locks, f'{kind}-{key}'), 'w',
              encoding='ascii') as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not os.path.isdir(path):
            new = f'{path}.new'
            shutil.rmtree(new, ignore_errors=True)
            os.mkdir(new)
            make(new)
            os.rename(new, path)
            os.utime(path)
            _prune(top, most)
        else:
            os.utime(path)
    return path


def _prune(top, most):
    """Remove all but those that were used last."""
    def used(path):
        try:
            return os.path.getmtime(path)
        except FileNotFoundError:
            return 0

    paths = [os.path.join(top, name) for name in os.listdir(top)]
    for path in sorted(paths, key=used, reverse=True)[most:]:
        shutil.rmtree(path, ignore_errors=True)
