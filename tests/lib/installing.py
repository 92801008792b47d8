# SPDX-License-Identifier: GPL-2.0-or-later
"""What scripts/install installs, from a build folder of its own"""

import os
import shutil
import subprocess
import tempfile

import qemu

INSTALL = os.path.join(qemu.TOP, 'scripts', 'install')


def environment():
    """What an earlier run has compiled need not be compiled again: see
    compile() in scripts/lib.sh."""
    env = {**os.environ, 'CCACHE_DIR': os.path.join(qemu.cache(), 'ccache'),
           'CCACHE_BASEDIR': qemu.TOP, 'CCACHE_NOHASHDIR': '1'}
    env.pop('DESTDIR', None)
    return env


def folder(add_cleanup):
    """As far from the sources as build/: there is nothing to compile that was
    not compiled for that."""
    path = tempfile.mkdtemp(prefix='build-install-', dir=qemu.TOP)
    add_cleanup(shutil.rmtree, path)
    return path


def configure(build, *options):
    """With the options of build/, but without tests, which others run"""
    command = 'configure' if os.listdir(build) else 'setup'
    subprocess.run(['meson', command, build, '-Dtests=false', *options],
                   cwd=qemu.TOP, env=environment(), check=True,
                   stdout=subprocess.DEVNULL)


def install(build, destdir=None):
    """Returns what scripts/install says."""
    env = environment()
    if destdir:
        env['DESTDIR'] = destdir
    result = subprocess.run([INSTALL, build], env=env, text=True,
                            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                            check=False)
    assert result.returncode == 0, result.stderr
    return result.stderr
