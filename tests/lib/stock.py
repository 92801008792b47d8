# SPDX-License-Identifier: GPL-2.0-or-later
"""QEMUs of Debian, as people have them, with the libraries of their release.

They are unpacked, not installed; what Debian has no more is skipped.
"""

import os
import subprocess

import kept
import qemu

# By release; a version is what the archive of that release has now.
VERSIONS = {
    'bookworm': '1:7.2+dfsg-7+deb12u18+b3',
    'trixie': '1:10.0.13+ds-0+deb13u1',
}
KEEP = 4                        # of some 200 MB each
LIBRARIES = ('lib/x86_64-linux-gnu', 'usr/lib/x86_64-linux-gnu',
             'usr/lib/x86_64-linux-gnu/pulseaudio')


def unpacked(release):
    """The folder with qemu-system-x86 and all that it depends on"""
    unpack = os.path.join(qemu.TOP, 'tests', 'peers', 'unpack')
    package = f'qemu-system-x86={VERSIONS[release]}'

    def make(folder):
        result = subprocess.run([unpack, release, folder, package],
                                check=False, text=True, capture_output=True)
        if result.returncode:
            qemu.skip(f'{release}: {result.stdout}{result.stderr}')

    with open(unpack, encoding='utf-8') as f:
        return kept.folder('stock', KEEP, [f.read(), release, package], make)


class Qemu(qemu.Qemu):
    """As qemu.Qemu, of a release"""

    def __init__(self, release, args, **kwargs):
        root = unpacked(release)
        library = os.path.join(root, 'usr/lib/x86_64-linux-gnu')
        program = os.path.join(root, 'usr/bin/qemu-system-x86_64')
        super().__init__(args, binary=program, env={
            'QEMU_MODULE_DIR': os.path.join(library, 'qemu')}, **kwargs)
        loader = next(os.path.join(at, 'ld-linux-x86-64.so.2')
                      for at, _, files in os.walk(root)
                      if 'ld-linux-x86-64.so.2' in files)
        self.args[:1] = [
            loader, '--library-path',
            ':'.join(os.path.join(root, path) for path in LIBRARIES), program]
        # Its own firmware is found before this machine's.
        for name in 'seabios', 'qemu':
            self.args[4:4] = ['-L', os.path.join(root, 'usr/share', name)]
