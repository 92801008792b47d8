# SPDX-License-Identifier: GPL-2.0-or-later
"""File systems that are soon full"""

import ctypes
import errno
import os

import qemu

CLONE_NEWNS = 0x20000
MS_REC, MS_PRIVATE = 0x4000, 0x40000
MNT_DETACH = 2


def libc(function, *args):
    if ctypes.CDLL(None, use_errno=True)[function](*args):
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))


def mount(folder, size):
    """Mount one on a folder, seen by this process and its children only."""
    libc('unshare', CLONE_NEWNS)
    # In a chroot, / need not be a mount that can be made private.
    if qemu.mounts_shared():
        libc('mount', b'none', b'/', None, ctypes.c_ulong(MS_REC | MS_PRIVATE),
             None)
    libc('mount', b'none', folder.encode(), b'tmpfs', ctypes.c_ulong(0),
         b'size=%d' % size)


def umount(folder):
    """Also if somebody who has been killed still has files there"""
    libc('umount2', folder.encode(), MNT_DETACH)


def use_all_but(folder, size):
    """Fill it except for this many bytes; the path of the file that does."""
    path = os.path.join(folder, 'other')
    with open(path, 'wb') as f:
        while True:
            st = os.statvfs(folder)
            room = st.f_bavail * st.f_frsize - size
            try:
                os.posix_fallocate(f.fileno(), 0, max(room, st.f_frsize))
                return path
            except OSError as e:
                # Somebody else has been quicker.
                if e.errno != errno.ENOSPC:
                    raise
