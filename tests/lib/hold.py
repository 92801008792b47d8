# SPDX-License-Identifier: GPL-2.0-or-later
"""A disk that takes as long as a test wants it to, for one program."""

import contextlib
import os
import shutil

import qemu


def env(path):
    """The environment of a program whose disk waits while path is there."""
    build = os.environ.get('BACKTRAIL_BUILD', os.path.join(qemu.TOP, 'build'))
    sanitizer = os.environ.get('ASAN_OPTIONS', '')
    # Beside path, for the program's user may not read the build folder.
    library = shutil.copy(os.path.join(build, 'tests', 'lib', 'hold.so'),
                          os.path.dirname(path))
    return dict(os.environ, BACKTRAIL_HOLD=path, LD_PRELOAD=library,
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
