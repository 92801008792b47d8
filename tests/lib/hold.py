# SPDX-License-Identifier: GPL-2.0-or-later
"""A disk that takes as long as a test wants it to, for one program."""

import contextlib
import os

import qemu


def env(path):
    """The environment of a program whose disk waits while path is there."""
    build = os.environ.get('BACKTRAIL_BUILD', os.path.join(qemu.TOP, 'build'))
    sanitizer = os.environ.get('ASAN_OPTIONS', '')
    return dict(os.environ, BACKTRAIL_HOLD=path,
                LD_PRELOAD=os.path.join(build, 'tests', 'lib', 'hold.so'),
                ASAN_OPTIONS=f'{sanitizer}:verify_asan_link_order=0'.strip(
                    ':'))


@contextlib.contextmanager
def held(path):
    """Nothing gets to the disk meanwhile."""
    with open(path, 'wb'):
        pass
    try:
        yield
    finally:
        os.unlink(path)
